"""What no scheduler can do better than in the long run, from rates, deadlines and what each network takes where.

Jobs are shared out among devices in any fractions, and a device works no more than all the time: a linear program. That
jobs come at their own times and cannot be interrupted is left out, so no schedule is above it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.mix import Network

Services = Sequence[Sequence[float | None]]
Floats = NDArray[np.float64]
_NOTHING = 1e-12


def _pairs(networks: Sequence[Network], services: Services) -> list[tuple[int, int, float]]:
    """Network, device and seconds, where it can be in time at all."""
    return [
        (network, device, ns / 1e9)
        for network, row in enumerate(services)
        for device, ns in enumerate(row)
        if ns is not None and ns <= networks[network].deadline_ns
    ]


def load(networks: Sequence[Network], services: Services) -> float | None:
    """The share of the time that the busiest device has to work at least for all jobs to be done; above 1 they cannot.
    None where a network can be in time nowhere."""
    pairs = _pairs(networks, services)
    if {network for network, _, _ in pairs} != set(range(len(networks))):
        return None
    # How many times these rates could be served: the first unknown; the others are jobs a second of each pair.
    limits = np.zeros((len(networks) + len(services[0]), len(pairs) + 1))
    limits[: len(networks), 0] = [network.rate_hz for network in networks]
    for place, (network, device, takes_s) in enumerate(pairs, 1):
        limits[network, place] = -1.0
        limits[len(networks) + device, place] = takes_s
    right = np.array([0.0] * len(networks) + [1.0] * len(services[0]))
    return 1 / _largest(limits, right, np.eye(1, len(pairs) + 1)[0])


def best_hits(networks: Sequence[Network], services: Services) -> float:
    """The largest share of all jobs that can be in time."""
    pairs = _pairs(networks, services)
    limits = np.zeros((len(networks) + len(services[0]), len(pairs)))
    for place, (network, device, takes_s) in enumerate(pairs):
        limits[network, place] = 1.0
        limits[len(networks) + device, place] = takes_s
    right = np.array([network.rate_hz for network in networks] + [1.0] * len(services[0]))
    return _largest(limits, right, np.ones(len(pairs))) / sum(network.rate_hz for network in networks)


def _largest(limits: Floats, right: Floats, gains: Floats) -> float:
    """The most of gains · x with limits · x <= right and x >= 0, where right >= 0: the simplex method, by Bland's rule
    (1977), which ends whatever ties there are."""
    rows, columns = limits.shape
    table = np.zeros((rows + 1, columns + rows + 1))
    table[:rows, :columns], table[:rows, columns:-1], table[:rows, -1] = limits, np.eye(rows), right
    table[-1, :columns] = -gains
    basis = list(range(columns, columns + rows))
    while (entering := np.flatnonzero(table[-1, :-1] < -_NOTHING)).size:
        column = int(entering[0])
        able = [row for row in range(rows) if table[row, column] > _NOTHING]
        if not able:
            break
        pivot = min(able, key=lambda row: (table[row, -1] / table[row, column], basis[row]))
        table[pivot] /= table[pivot, column]
        for row in range(rows + 1):
            if row != pivot:
                table[row] -= table[row, column] * table[pivot]
        basis[pivot] = column
    return float(table[-1, -1])
