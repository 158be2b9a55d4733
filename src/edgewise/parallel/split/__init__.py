"""One inference on several targets at once: each computes a part of the channels of every layer."""
