"""A mix of networks with deadlines: what `edgewise parallel` does with a file of that kind."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace


def run_mix(
    file: str,
    *,
    scheduler: str | None,
    seconds: float | None,
    save: str | None,
    timeout: float,
    memory: str | None,
    json_: bool,
) -> int:
    """`scheduler` is one or several with commas between; it and `seconds` go before what the file says."""
    from ..analyze import mix as analysis
    from ..analyze.evidence import Evidence
    from ..core.errors import InputError
    from ..core.records import dumps
    from ..report import terminal
    from ..store.db import Store
    from ..study import home
    from ..study.mix import find, keep, run
    from ..study.mix_file import LONGEST_S, read, schedulers
    from ..study.prepare import Limits
    from ._progress import Progress
    from ._values import size_bytes

    asked = read(file)
    if scheduler is not None:
        names = tuple(dict.fromkeys(name.strip() for name in scheduler.split(",")))
        asked = replace(asked, schedulers=schedulers(names, "--scheduler"))
    if seconds is not None:
        if not 0 < seconds <= LONGEST_S:
            raise InputError(f"--seconds is a number above 0, at most {LONGEST_S:g}, found {seconds:g}")
        asked = replace(asked, seconds=seconds)
    path = save or str(home.default_store())
    progress = Progress(0)
    with Store(path) as store:
        try:
            found = find(asked, Limits(timeout, size_bytes(memory)))
            store.save_machine(found.machine)
            for model in found.models:
                store.save_model(model)
            mix = run(asked, found, progress.say)
        except KeyboardInterrupt:
            progress.done()
            print("interrupted: a mix is saved when it is done, so nothing was", file=sys.stderr)
            return 130
        keep(store, mix)
    progress.done()
    section = analysis.run(Evidence(machines={found.machine.id: found.machine}, mixes=(mix,)))
    if json_:
        print(dumps({"machine": found.machine, "mix": mix, "section": section}))
        return 0
    out = terminal.console(sys.stdout)
    over = ", ".join(map(str, mix.targets))
    out.print(f"{mix.name} over {over} on {found.machine.label}\n", markup=False)
    terminal.draw(section, out, keep=("scheduler", "network"))
    out.print(f"\nSaved in {path}; draw it with: edgewise report {shlex.quote(path)}", style="dim", markup=False)
    return 0
