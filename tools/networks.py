"""Write docs/networks.md: every built-in network on every engine installed here, run once and compared.

It takes some minutes: `python tools/networks.py [NETWORK ...]`. What stops an engine is named.
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgewise import zoo
from edgewise.core.text import parse_scenario
from edgewise.core.types import Failure, Measurement, Target
from edgewise.measure.cell import run_cell
from edgewise.report.format import error
from edgewise.study.prepare import Limits, cell, find_model
from edgewise.study.survey import survey

PAGE = Path(__file__).resolve().parent.parent / "docs" / "networks.md"
ONCE = parse_scenario("single(warmup=0, max_runs=1, min_s=0)")
INTRO = """<!-- Written by `python tools/networks.py`. -->

# Networks on engines

Each built-in network on each engine in fp32, run once on seeded noise. The figure is the root mean square difference
from ONNX Runtime with its optimizations off, relative to the outputs' own root mean square; anything above 1e-04 would
be reported as wrong.
"""


def main() -> None:
    limits = Limits(timeout_s=300.0)
    machine, engines = survey()
    facts = [engine for engine in engines if engine.version and engine.computes]
    stops: list[str] = []
    rows, ran = [], dict.fromkeys((engine.name for engine in facts), 0)
    names = sys.argv[1:] or list(zoo.names())
    for name in names:
        model = find_model(name, limits)
        cells = []
        for engine in facts:
            made = cell(model, Target(engine.name, "cpu", "fp32", 2), ONCE, machine, engine, limits)
            result = made if isinstance(made, Failure) else run_cell(made, lambda _: None)
            print(f"{name} on {engine.name}: {_shown(result)}", flush=True)
            if isinstance(result, Measurement):
                ran[engine.name] += 1
                cells.append(_shown(result))
            else:
                stops.append(f"{name} on {engine.name}: {result.message}")
                cells.append(f"stopped [{len(stops)}](#{len(stops)})")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    head = [f"{engine.name} {engine.version}" for engine in facts]
    parts = [INTRO, f"| network | {' | '.join(head)} |", "|---|" + "---|" * len(head), *rows]
    parts.append(f"| **ran, of {len(names)}** | " + " | ".join(str(ran[engine.name]) for engine in facts) + " |\n")
    parts += [f'<a id="{number}"></a>{number}. {reason}\n' for number, reason in enumerate(stops, 1)]
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _shown(result: Measurement | Failure) -> str:
    if isinstance(result, Failure):
        return result.message
    agreement = result.starts[0].agreement
    return error(agreement.error) if agreement else "not compared"


if __name__ == "__main__":
    main()
