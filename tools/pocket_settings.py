"""How a network of the pocket family is trained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    scenes: int = 500_000
    epochs: int = 8
    batch: int = 1024
    rate: float = 4e-3  # the highest learning rate
    decay: float = 0.05  # of weights, not of biases and normalization
    smoothing: float = 0.05  # of labels
    average: float = 0.999  # what is kept of the averaged weights at each step
    warmup: float = 0.05  # the share of steps in which the rate rises
    difficulty: float = 1.0
    validation: int = 5000  # scenes
    seed: int = 0
