"""The run of a mix: each network alone on each target, then the schedulers by turns at the same arrivals."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from ..core.errors import Unsupported
from ..core.mix import Block, Job, Mix, Network, Service
from ..core.stats import quantile
from ..core.types import Failure, Model, Placement, Scenario, Target
from ..parallel.mix.desk import Desk
from ..parallel.mix.process import Place
from ..parallel.mix.run import Crew
from ..parallel.mix.schedulers import RULES
from ..parallel.mix.simulate import arrivals, simulate
from ..store.db import Store
from ..store.kept import Kept
from .mix_file import Asked
from .prepare import Limits, engine_versions
from .request import Request, request

KIND = "mix"
# Schedulers take turns by blocks of about a second, so that what the machine does besides happens to all of them; every
# network arrives several times in one.
_BLOCK_S = 1.0
_FEWEST_ARRIVALS = 4
# How long each network is measured alone on each target.
_ALONE_S = 0.4

Say = Callable[[str], None]
Expected = list[list[float | None]]


def find(asked: Asked, limits: Limits) -> Request:
    """The models and engines it needs, checked before anything is loaded."""
    models = tuple(dict.fromkeys(each.model for each in asked.networks))
    on = tuple(dict.fromkeys(str(target) for target in asked.over))
    return request(models, on, (), [Scenario()], limits)


def run(asked: Asked, found: Request, say: Say) -> Mix:
    models = _models(asked, found)
    networks = _networks(asked, models)
    places = [_place(target, found, [models[each.model] for each in asked.networks], say) for target in asked.over]
    limits = found.limits
    with Crew(places, timeout_s=limits.timeout_s, memory_bytes=limits.memory_bytes, seed=asked.seed, say=say) as crew:
        services = _alone(crew, networks, say)
        _check_served(networks, places, services)
        expected = medians(len(networks), len(places), services)
        blocks = _blocks(asked, networks, crew, expected, say)
        lost = tuple(error.message for error in crew.lost)
    versions = {pair for target in asked.over for pair in engine_versions(Placement.single(target), found.engines)}
    return Mix(
        asked.name,
        found.machine.id,
        tuple(sorted(versions)),
        networks,
        tuple(place.target for place in places),
        asked.schedulers,
        asked.seed,
        services,
        blocks,
        predict(asked, networks, services, expected),
        lost,
    )


def keep(store: Store, mix: Mix) -> None:
    Kept(store).keep(KIND, f"{mix.name}\n{mix.machine}", mix)


def _models(asked: Asked, found: Request) -> Mapping[str, Model]:
    return dict(zip(dict.fromkeys(each.model for each in asked.networks), found.models, strict=True))


def _networks(asked: Asked, models: Mapping[str, Model]) -> tuple[Network, ...]:
    """A network that is there twice is called by its place as well."""
    names = [models[each.model].label for each in asked.networks]
    return tuple(
        Network(
            name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})",
            models[each.model].digest,
            each.rate_hz,
            each.deadline_ns,
            each.arrivals,
        )
        for place, (name, each) in enumerate(zip(names, asked.networks, strict=True))
    )


def _place(target: Target, found: Request, models: Sequence[Model], say: Say) -> Place:
    """What a target holds, prepared; a network that cannot be prepared for it has its reason there."""
    held: list[tuple[Model, Target] | str] = []
    cores: tuple[int, ...] = target.cores
    shown = target
    for model in models:
        say(f"preparing {model.label} for {target}")
        cell = found.cell(model, Placement.single(target), Scenario())
        if isinstance(cell, Failure):
            held.append(cell.message)
            continue
        (complete,) = cell.task.placement.targets
        held.append((cell.model, complete))
        cores = cell.cores
        shown = complete if shown == target else shown
    return Place(shown, cores, tuple(held))


def _alone(crew: Crew, networks: Sequence[Network], say: Say) -> tuple[Service, ...]:
    found = []
    for network, about in enumerate(networks):
        for device, place in enumerate(crew.places):
            samples: tuple[int, ...] = ()
            if crew.serves(network, device):
                say(f"{about.label} alone on {place.target}")
                samples = crew.measure(network, device, _ALONE_S)
            reason = crew.reasons.get((network, device), "")
            if not samples and not reason:
                reason = crew.lost[-1].message
            found.append(Service(network, device, samples, reason))
    return tuple(found)


def _check_served(networks: Sequence[Network], places: Sequence[Place], services: Sequence[Service]) -> None:
    for network, about in enumerate(networks):
        own = [each for each in services if each.network == network]
        if not any(each.samples_ns for each in own):
            why = "; ".join(f"{places[each.device].target}: {each.reason}" for each in own)
            raise Unsupported(f"no target serves {about.label}: {why}", "add one that does to over")


def medians(networks: int, devices: int, services: Sequence[Service]) -> Expected:
    """What a run of each network takes on each device, by the runs alone; None where it is not served."""
    found: Expected = [[None] * devices for _ in range(networks)]
    for each in services:
        if each.samples_ns:
            found[each.network][each.device] = quantile(each.samples_ns, 0.5)
    return found


def block_seconds(asked: Asked) -> tuple[int, float]:
    """How many blocks each scheduler gets, and how long each is."""
    least = max(_BLOCK_S, _FEWEST_ARRIVALS / min(each.rate_hz for each in asked.networks))
    count = max(1, round(asked.seconds / least))
    return count, asked.seconds / count


def _jobs(asked: Asked, networks: Sequence[Network], number: int) -> list[Job]:
    return arrivals(networks, block_seconds(asked)[1], asked.seed * 1_000_003 + number)


def _blocks(asked: Asked, networks: Sequence[Network], crew: Crew, expected: Expected, say: Say) -> tuple[Block, ...]:
    """The schedulers take turns within each block, in an order drawn anew; each goes on with what it has learned."""
    desks = {name: _desk(networks, expected) for name in asked.schedulers}
    found = []
    count, _ = block_seconds(asked)
    for number in range(count):
        jobs = _jobs(asked, networks, number)
        order = list(asked.schedulers)
        random.Random(f"{asked.seed}-{number}").shuffle(order)
        for name in order:
            say(f"block {number + 1} of {count}: {name}")
            found.append(crew.play(desks[name], RULES[name], jobs, name=name, number=number))
    return tuple(found)


def predict(
    asked: Asked, networks: Sequence[Network], services: Sequence[Service], expected: Expected
) -> tuple[Block, ...]:
    """The same blocks with a simulated clock; every run takes what one of those alone took."""
    samples = {(each.network, each.device): each.samples_ns for each in services}
    found = []
    for name in asked.schedulers:
        desk = _desk(networks, expected)
        for number in range(block_seconds(asked)[0]):

            def serve(job: Job, device: int, number: int = number) -> int:
                drawn = random.Random(f"{asked.seed}-{number}-{job.number}-{device}")
                return drawn.choice(samples[job.network, device])

            jobs = _jobs(asked, networks, number)
            found.append(simulate(desk, RULES[name], jobs, serve, name=name, number=number))
    return tuple(found)


def _desk(networks: Sequence[Network], expected: Expected) -> Desk:
    return Desk(expected, [network.deadline_ns for network in networks])
