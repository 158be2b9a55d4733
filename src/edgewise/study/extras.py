"""What a study finds out beside its measurements: costs, support, roofs, profiles, answers to labelled images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ..core.errors import EdgewiseError, StoreError
from ..core.profile import Profile
from ..core.roofs import place
from ..core.support import Support
from ..core.types import Failure, Model, Placement, Target
from ..data import built_in
from ..measure.cell import Cell
from ..measure.profile import profile
from ..store.db import Store
from ..store.kept import Kept
from .accuracy import accuracy
from .costs import keep_cost
from .images import Question
from .prepare import complete
from .request import Request
from .roofline import keep_profile, keep_roofs
from .schedule import Wanted
from .study import Study
from .support import keep, support

# Images in one inference, where accuracy is asked about.
_BATCH = 16


@dataclass(frozen=True, slots=True)
class Extra:
    """One thing to find out. `ask` says why it could not be, or None."""

    what: str
    ask: Callable[[], str | None]

    def run(self) -> str | None:
        """Whatever goes wrong with it is no reason to lose the study."""
        try:
            return self.ask()
        except StoreError:
            raise
        except EdgewiseError as error:
            return error.message


def costs(study: Study, request: Request, store: Store) -> Iterator[Extra]:
    """What every drawing needs and takes a second: before anything is measured."""
    for model in request.models if study.cost else ():
        yield Extra(f"the cost of {model.label}", partial(_cost, model, request, store))


def extras(study: Study, request: Request, cells: Sequence[Wanted], store: Store, *, again: bool) -> Iterator[Extra]:
    """After the measurements, at the smallest batch; what the store has is left out unless `again`."""
    smallest = [cell for cell in cells if cell.scenario.batch == study.batch[0]]
    alone = [cell for cell in smallest if cell.placement.kind == "single"]
    pairs = list(dict.fromkeys((cell.model, cell.placement.targets[0]) for cell in alone))
    # Built-in data is for the models trained on it; what the user names is asked of all.
    own = built_in.parse(study.accuracy) if study.accuracy else None
    for model in request.models if study.accuracy else ():
        if own is None or model.data in built_in.NAMES:
            mine = [target for of, target in pairs if of == model]
            what = f"{model.label} on {study.accuracy}"
            yield Extra(what, partial(_accuracy, model, mine, study, request, store, again))
    for model in request.models if study.support else ():
        mine = [target for of, target in pairs if of == model]
        yield Extra(f"what is supported of {model.label}", partial(_support, model, mine, study, request, store, again))
    for target in _places(pairs, request) if study.roofs else ():
        threads = f"@{target.threads}" if target.threads else ""
        yield Extra(f"the roofs of {place(target)}{threads}", partial(_roofs, target, request, store, again))
    for model, target in pairs if study.profile else ():
        if "profile" in request.engine(target).functions:
            what = f"a profile of {model.label} on {target}"
            yield Extra(what, partial(_profile, model, target, study, request, store, again))


def _cost(model: Model, request: Request, store: Store) -> str | None:
    return None if keep_cost(store, model, 1, request.limits) else "it cannot be counted"


def _support(
    model: Model, targets: Sequence[Target], study: Study, request: Request, store: Store, again: bool
) -> str | None:
    """Each device once, in the precision of the model."""
    able = [t for t in targets if "support" in request.engine(t).functions]
    if not able:
        return "no engine here tells"
    told = () if again else Kept(store).all("support", Support)
    known = {(each.subject, each.placement, each.machine, each.versions) for each in told}
    devices = []
    for engine, device in dict.fromkeys((t.engine, t.device) for t in able):
        with suppress(EdgewiseError):  # a device that is not here has failed already
            if _question(model, Target(engine, device), request) not in known:
                devices.append(Target(engine, device))
    if not devices:
        return None
    failed = []
    for found in support(model.path, devices, study.batch[0], request.limits)[1]:
        if isinstance(found, Failure):
            failed.append(found)
        else:
            keep(store, replace(found, label=model.label))
    return f"{failed[0].task.placement}: {failed[0].message}" if failed else None


def _question(model: Model, target: Target, request: Request) -> tuple[object, ...]:
    engine = request.engine(target)
    placement = Placement.single(complete(target, engine, request.machine, model))
    return model.digest, placement, request.machine.id, ((engine.name, engine.version or ""),)


def _profile(model: Model, target: Target, study: Study, request: Request, store: Store, again: bool) -> str | None:
    ready = request.cell(model, Placement.single(target), study.scenarios[0].with_batch(study.batch[0]))
    if not isinstance(ready, Cell):
        return None  # the measurement said so
    found = profile(ready) if again else keep_profile(store, ready, request)
    if isinstance(found, Profile) and again:
        Kept(store).keep("profile", found.key, found)
    return found.message if isinstance(found, Failure) else None


def _places(pairs: Sequence[tuple[Model, Target]], request: Request) -> list[Target]:
    """One completed target for each processor and number of threads; what cannot be completed has failed already."""
    found: dict[tuple[str, int | None], Target] = {}
    for model, target in pairs:
        with suppress(EdgewiseError):
            whole = complete(target, request.engine(target), request.machine, model)
            found.setdefault((place(whole), whole.threads), whole)
    return list(found.values())


def _roofs(target: Target, request: Request, store: Store, again: bool) -> str | None:
    found = keep_roofs(store, target, request, fresh=again)
    return None if found.roofs else "; ".join(why for _, why in found.missing) or "none could be measured"


def _accuracy(
    model: Model, targets: Sequence[Target], study: Study, request: Request, store: Store, again: bool
) -> str | None:
    """On each engine, device and precision once: threads change no answer."""
    once = {(t.engine, t.device, t.precision, t.options): t for t in targets}
    results = accuracy(
        [model],
        list(once.values()),
        Question(data=study.accuracy),
        request.machine,
        request.engines,
        request.limits,
        store,
        lambda who, count, done: None,
        batch=_BATCH,
        resume=not again,
    )
    failed = [result for result in results if isinstance(result, Failure)]
    return f"{failed[0].task.placement}: {failed[0].message}" if failed else None
