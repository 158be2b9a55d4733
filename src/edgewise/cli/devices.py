"""`edgewise devices`: what is here, what is missing, and how to get it."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated


def run(*, json_: Annotated[bool, "raw facts as JSON"] = False) -> None:
    """Show the machine, every engine with its devices, precisions and abilities, and the energy meters."""
    from ..core.records import dumps
    from ..core.types import Column, Section, Target
    from ..engines import ABILITIES
    from ..report import format, terminal
    from ..study.survey import survey
    from ..system import energy

    machine, engines = survey()
    meters, missing = energy.meters(), energy.missing()
    for meter in meters:
        meter.close()
    if json_:
        found = [
            {"source": m.source, "covers": m.covers, "part_of": m.part_of, "minimum_ns": m.minimum_ns} for m in meters
        ]
        none = [{"source": source, "reason": reason} for source, reason in missing]
        print(dumps({"machine": machine, "engines": engines, "meters": found, "missing_meters": none}))
        return
    out = terminal.console(sys.stdout)
    out.print(f"[bold]{machine.label}[/bold]")
    out.print(f"{machine.system}, governor {machine.governor or 'unknown'}, machine {machine.id}\n")
    for cluster in machine.clusters:
        facts = [f"cores {_ranges(cluster.cores)}"]
        facts += [f"up to {format.frequency(cluster.max_hz)}"] if cluster.max_hz else []
        facts += [f"capacity {cluster.capacity}"] if cluster.capacity else []
        facts += [f"{cluster.threads_per_core} threads a core"] if cluster.threads_per_core > 1 else []
        out.print(f"cpu.{cluster.name}  {', '.join(facts)}")
    for cache, copies in Counter((c.level, c.kind, c.size_bytes, len(c.shared_by)) for c in machine.caches).items():
        level, kind, size_bytes, sharers = cache
        shared = f", each shared by {sharers} cores" if sharers > 1 else ""
        out.print(f"L{level} {kind.lower()}  {copies} × {format.size(size_bytes)}{shared}")
    for accelerator in machine.accelerators:
        memory = f", {format.size(accelerator.memory_bytes)}" if accelerator.memory_bytes else ""
        out.print(f"{accelerator.kind}  {accelerator.label}{memory}")
    out.print()
    rows = tuple(
        (
            e.name,
            e.version,
            d.name,
            d.label,
            ", ".join(d.precisions),
            ", ".join(ABILITIES[name] for name in e.functions) or None,
            ", ".join(e.options),
        )
        for e in engines
        for d in e.devices
    )
    columns = (
        *map(Column, ("engine", "version", "device")),
        Column("label", spare=2),
        Column("precisions"),
        Column("abilities", spare=3),
        Column("options", spare=4),
    )
    terminal.draw(Section("Engines", columns, rows), out, keep=tuple(column.name for column in columns))
    out.print()
    for engine in engines:
        for device, variants in engine.variants:
            for options in variants:
                out.print(f"also: {Target(engine.name, device, options=options)}", markup=False)
        for precision, options in engine.defaults:
            needed = Target(engine.name, "cpu", precision, options=options)
            out.print(f"{engine.name} crashes here in {precision} as it comes, so it runs as {needed}", markup=False)
    for engine in engines:
        if engine.version is None:
            out.print(f"\n{engine.name} is missing: {engine.reason}")
            if engine.hint:
                out.print(f"  get it with: {engine.hint}", markup=False)
    for accelerator in machine.accelerators:
        if not any(device.kind == accelerator.kind for engine in engines for device in engine.devices):
            out.print(f"\nno installed engine uses the {accelerator.kind} ({accelerator.label})")
    out.print("\n[bold]Energy meters[/bold]" if meters else "\n[bold]No energy meter[/bold]")
    for meter in meters:
        part = f", part of {meter.part_of}" if meter.part_of else ""
        what = "energy" if meter.counts else "power"
        least = format.time(meter.minimum_ns)
        out.print(f"{meter.source}: {what} of {meter.covers}{part}; windows of {least} or more", markup=False)
    for source, reason in missing:
        out.print(f"{source} is missing: {reason}", markup=False, style="dim")


def _ranges(cores: tuple[int, ...]) -> str:
    """0, 1, 2, 5 as 0-2, 5."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
