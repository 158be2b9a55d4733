"""What a described chip would do with a stream: together, each alone, and with one left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.errors import InputError
from .fit import Fitted, beside
from .soc import Component, Network, Published, Soc
from .stream import Streamed, Worker, simulate


@dataclass(frozen=True, slots=True)
class Change:
    """A component that takes `slower` times as long from a moment on, or dies at one."""

    component: str
    slower: float = 1.0
    slower_ns: int | None = None
    dies_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """How a stream is simulated."""

    frames: int = 2000
    jitter: float = 0.05
    seed: int = 0
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """`per_s_alone` and the workers of `streamed` are in the order of `components`. `without` is the throughput
    with the number that the other published cases give; None where this one is not published."""

    soc: str
    network: str
    components: tuple[Component, ...]
    per_s_alone: tuple[float, ...]
    streamed: Streamed
    published: Published | None
    per_s_without: float | None = None

    @property
    def over(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.components)

    @property
    def error(self) -> float | None:
        """Of the prediction, over what was published; what was published is of long streams."""
        if self.published is None or not self.streamed.settled:
            return None
        return self.streamed.per_s / self.published.per_s - 1

    @property
    def error_without(self) -> float | None:
        if self.published is None or self.per_s_without is None or not self.streamed.settled:
            return None
        return self.per_s_without / self.published.per_s - 1


def forecast(soc: Soc, network: str, over: Sequence[str], fit: Fitted, terms: Terms) -> Forecast:
    """The components named in `over`, or all that run the network where none is."""
    figures = soc.network(network)
    chosen = soc.over(figures, over)
    names = tuple(component.name for component in chosen)
    for change in terms.changes:
        if change.component not in [component.name for component in soc.over(figures)]:
            soc.over(figures, [change.component])
        if change.component not in names:
            raise InputError(f"{change.component} is to change and takes no part, only {', '.join(names)}")
    # What was published is of a chip that neither slows down nor loses a processor.
    published = None if terms.changes else soc.said(network, names)
    without = None
    if published and fit.own:
        value = fit.without[soc.published.index(published)]
        without = _stream(soc, figures, names, fit, value, terms).per_s
    return Forecast(
        soc.name,
        network,
        chosen,
        tuple(figures.per_s[name] for name in names),
        _stream(soc, figures, names, fit, fit.value, terms),
        published,
        without,
    )


def without_each(whole: Forecast, soc: Soc, fit: Fitted, terms: Terms) -> dict[str, Forecast]:
    """The same with one component left out, for each of them that can be: of the others one must outlive the stream."""
    found = {}
    for name in whole.over if len(whole.over) > 1 else ():
        others = tuple(change for change in terms.changes if change.component != name)
        rest = [other for other in whole.over if other != name]
        if set(rest) <= {change.component for change in others if change.dies_ns is not None}:
            continue
        found[name] = forecast(soc, whole.network, rest, fit, Terms(terms.frames, terms.jitter, terms.seed, others))
    return found


def cases(soc: Soc, network: str | None = None) -> list[tuple[str, tuple[str, ...]]]:
    """The networks of a chip, and the components they are worth simulating on: what was published, or all together."""
    wanted = [each.name for each in soc.networks] if network is None else [soc.network(network).name]
    found: list[tuple[str, tuple[str, ...]]] = []
    for name in wanted:
        known = [(name, each.over) for each in soc.published if each.network == name]
        found += known or [(name, tuple(each.name for each in soc.over(soc.network(name))))]
    return found


def _stream(soc: Soc, network: Network, over: Sequence[str], fit: Fitted, value: float, terms: Terms) -> Streamed:
    changes = {change.component: change for change in terms.changes}
    workers = []
    for name in over:
        change = changes.get(name, Change(name))
        frame_ns = 1e9 / network.per_s[name]
        workers.append(Worker(name, frame_ns, change.slower, change.slower_ns, change.dies_ns))
    left = beside(soc, network, over, fit.model, value)
    return simulate(workers, terms.frames, jitter=terms.jitter, seed=terms.seed, contention=left)
