"""Records, text forms, errors, registry and statistics: no input or output, nothing heavier than numpy."""
