"""What no scheduler can do better than, from rates, deadlines and what each network takes where.

Both bounds are of the long run, and both are duals of a linear program (every job goes somewhere, no device works more
than all the time): *any* prices of device time give a valid bound, so a search that stops early is only less sharp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.mix import Network

_STEPS = 400
Services = Sequence[Sequence[float | None]]


def usable(networks: Sequence[Network], services: Services) -> list[list[float | None]]:
    """Services in seconds, without those that take longer than the deadline allows."""
    return [
        [None if ns is None or ns > network.deadline_ns else ns / 1e9 for ns in row]
        for network, row in zip(networks, services, strict=True)
    ]


def load(networks: Sequence[Network], services: Services) -> float | None:
    """The share of the time that the busiest device has to work at least for all jobs to be done; above 1 they cannot.
    None where a network can be done in time nowhere."""
    takes = usable(networks, services)
    if any(all(each is None for each in row) for row in takes):
        return None

    def needed(prices: Sequence[float]) -> float:
        cheapest = [
            min(price * each for price, each in zip(prices, row, strict=True) if each is not None) for row in takes
        ]
        return sum(n.rate_hz * each for n, each in zip(networks, cheapest, strict=True)) / sum(prices)

    return needed(_search(lambda prices: -needed(prices), len(takes[0])))


def best_hits(networks: Sequence[Network], services: Services) -> float:
    """The largest share of all jobs that can be in time."""
    takes = usable(networks, services)

    def hits_hz(prices: Sequence[float]) -> float:
        found = sum(prices)
        for network, row in zip(networks, takes, strict=True):
            costs = [price * each for price, each in zip(prices, row, strict=True) if each is not None]
            found += network.rate_hz * max(0.0, 1 - min(costs, default=1.0))
        return found

    prices = _search(hits_hz, len(takes[0]))
    return min(1.0, hits_hz(prices) / sum(network.rate_hz for network in networks))


def _search(cost: Callable[[Sequence[float]], float], devices: int) -> list[float]:
    """Prices that make the cost small: one at a time is raised or lowered, by less and less. Without any price the
    cost is what it is with all at zero, or nearly."""
    best, least = [1e-9] * devices, cost([1e-9] * devices)
    for start in (1.0, 10.0, 100.0):
        prices, own, step = [start] * devices, cost([start] * devices), 2.0
        for _ in range(_STEPS):
            before = own
            for place in range(devices):
                for factor in (step, 1 / step):
                    tried = [*prices[:place], prices[place] * factor, *prices[place + 1 :]]
                    found = cost(tried)
                    if found < own:
                        prices, own = tried, found
            if own == before:
                step **= 0.5
                if step < 1.0001:
                    break
        if own < least:
            best, least = prices, own
    return best
