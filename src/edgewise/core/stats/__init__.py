"""Statistics for latencies in time order: dependent, bursty, drifting, looked at more than once. numpy only."""

from .certify import LONGEST_DEPENDENCE, Certificate, certify
from .dependence import Dependence, dependence
from .drift import Drift, drift
from .modes import Mode, Modes, modes
from .paired import Ratio, ratio
from .proportions import Z95, Discordance, holm, wilson
from .quantile import Interval, carries, floor, interval, quantile
from .steady import steady
from .stopping import Decision, Stopping, interval_at_stop

__all__ = [
    "LONGEST_DEPENDENCE",
    "Z95",
    "Certificate",
    "Decision",
    "Dependence",
    "Discordance",
    "Drift",
    "Interval",
    "Mode",
    "Modes",
    "Ratio",
    "Stopping",
    "carries",
    "certify",
    "dependence",
    "drift",
    "floor",
    "holm",
    "interval",
    "interval_at_stop",
    "modes",
    "quantile",
    "ratio",
    "steady",
    "wilson",
]
