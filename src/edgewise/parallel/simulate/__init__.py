"""Streams on devices that are not here: the dealer that runs on real ones, on a made-up clock, over described chips."""
