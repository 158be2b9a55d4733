"""Statistics for latencies in time order: dependent, bursty, drifting, looked at more than once. numpy only."""

from .dependence import Dependence, dependence
from .drift import Drift, drift
from .modes import Mode, Modes, modes
from .quantile import Interval, carries, floor, interval, quantile
from .steady import steady
from .stopping import Decision, Stopping

__all__ = [
    "Decision",
    "Dependence",
    "Drift",
    "Interval",
    "Mode",
    "Modes",
    "Stopping",
    "carries",
    "dependence",
    "drift",
    "floor",
    "interval",
    "modes",
    "quantile",
    "steady",
]
