"""Isolated, repeated, honest timing of executables."""
