"""What the PyTorch engine is made of: the table of operators, and the ways to run what comes of it."""
