"""Find the fastest way to run your model on this device, know that it is true, and run it that way."""

__version__ = "0.1.0"
