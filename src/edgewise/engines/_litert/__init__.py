"""What the LiteRT engine is made of: the writer of its files, and what it really runs."""
