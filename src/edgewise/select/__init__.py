"""Which model is asked about which input: what is fitted on a table of answers, replayed on it, and run by it."""
