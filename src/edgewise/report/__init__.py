"""Records to what people read: the only place where numbers are rounded and sentences made."""
