"""Core ML's own packages."""
