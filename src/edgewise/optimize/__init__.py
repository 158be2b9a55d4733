"""One file per pass: a model in, a smaller or faster one out."""
