"""Placements over targets, as executables."""
