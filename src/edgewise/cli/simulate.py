"""`edgewise simulate`: a stream on a device that is not here."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from ..parallel.simulate.forecast import Change


def run(
    *,
    soc: Annotated[str, "a described chip by name, a file that ends in .toml, or all"] = "all",
    network: Annotated[str | None, "a network the chip has figures for (default: every one)"] = None,
    over: Annotated[tuple[str, ...], "a component that takes part; repeat for several (default: all)"] = (),
    frames: Annotated[int, "how many frames the stream has"] = 2000,
    jitter: Annotated[float, "standard deviation of what a frame takes, over its mean"] = 0.05,
    seed: Annotated[int, "the seed of what is drawn at random"] = 0,
    slow: Annotated[tuple[str, ...], "a component that slows down, such as gpu=2@10s: twice as slow after 10 s"] = (),
    die: Annotated[tuple[str, ...], "a component that dies, such as gpu@10s"] = (),
    contention: Annotated[str, "what hinders: feeding, frames, cores, neighbours, equal or none"] = "feeding",
    json_: Annotated[bool, "raw results as JSON"] = False,
) -> None:
    """Simulate a stream dealt to the components of a chip: throughput, shares, delay, and whom to leave out.

    The dealer is the one that `deal(...)` runs with, on a made-up clock. What components do alone is from published
    tables or a file of yours; what they cost each other is one number, fitted to published figures. Nothing is
    measured.
    """
    from ..analyze import simulated as analysis
    from ..core.errors import InputError
    from ..core.records import dumps
    from ..core.tables import near
    from ..parallel.simulate.contention import MODELS
    from ..parallel.simulate.fit import fitted
    from ..parallel.simulate.forecast import Terms, cases, forecast, without_each
    from ..report import terminal
    from ..study.socs import ALL, chips

    if contention not in MODELS:
        raise InputError(f"unknown contention {contention!r}; {near(contention, list(MODELS))}", "edgewise simulate")
    model, terms = MODELS[contention], Terms(frames, jitter, seed, _changes(slow, die))
    found = chips(soc)
    out = terminal.console(sys.stdout)
    if network is None or soc == ALL:
        if over or terms.changes:
            chip, of = found[0], network or found[0].networks[0].name
            raise InputError(
                "--over, --slow and --die are about one network on one chip",
                f"edgewise simulate --soc {chip.name} --network {of}",
            )
        fits = [fitted(chip, model) for chip in found]
        forecasts = [
            forecast(chip, name, those, fit, terms)
            for chip, fit in zip(found, fits, strict=True)
            for name, those in cases(chip, network)
        ]
        section = analysis.cases(forecasts, fits)
        if json_:
            print(
                dumps({"socs": found, "fits": [fit.value for fit in fits], "forecasts": forecasts, "section": section})
            )
            return
        terminal.draw(section, out, keep=("soc", "network", "components"))
        return
    (chip,) = found
    fit = fitted(chip, model)
    whole = forecast(chip, network, over, fit, terms)
    without = without_each(whole, chip, fit, terms)
    unchanged = forecast(chip, network, over, fit, replace(terms, changes=())) if terms.changes else None
    sections = [analysis.run(whole, without, fit, terms, unchanged), analysis.left_out(whole, without)]
    if json_:
        print(dumps({"soc": chip, "fit": fit.value, "forecast": whole, "without": without, "sections": sections}))
        return
    out.print(f"{network} on {chip.label}, simulated ({chip.source})\n", markup=False)
    terminal.draw(sections[0], out, keep=("component",))
    if without:
        out.print()
        terminal.draw(sections[1], out, keep=("components",))
    if chip.notes:
        out.print()
    for note in chip.notes:
        out.print(note, style="dim", markup=False)


def _changes(slow: tuple[str, ...], die: tuple[str, ...]) -> tuple[Change, ...]:
    """`gpu=2@10s` and `npu@5s`: components that slow down and die, and when."""
    from ..core.errors import InputError
    from ..parallel.simulate.forecast import Change
    from ._values import duration_s

    found = []
    for text in slow:
        match = re.fullmatch(r"([^=@\s]+)=([0-9]{1,6}(?:\.[0-9]{1,6})?)@(\S+)", text.strip())
        if not match or not float(match[2]):
            raise InputError(f"--slow {text!r} is not a change; expected such as gpu=2@10s")
        found.append(Change(match[1], float(match[2]), slower_ns=round((duration_s("--slow", match[3]) or 0) * 1e9)))
    for text in die:
        name, at, moment = text.strip().partition("@")
        if not at or not name:
            raise InputError(f"--die {text!r} is not a change; expected such as gpu@10s")
        found.append(Change(name, dies_ns=round((duration_s("--die", moment) or 0) * 1e9)))
    names = [change.component for change in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--slow and --die name {name} more than once, expected one change for each component")
    return tuple(found)
