"""P6: the memory of all values in one piece, against what no placement can be below, over all built-in networks.

And what another order of the nodes does to that bound, and to the peak of an engine's process, where it finds a better
one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from _goal import finish, say
from edgewise import zoo
from edgewise.core.errors import EdgewiseError
from edgewise.core.types import Failure, Scenario
from edgewise.measure.cell import Session
from edgewise.model import arena, feeds
from edgewise.model.emit import emit
from edgewise.model.graph import Graph, fixed, graph
from edgewise.optimize.reorder import reordered
from edgewise.study.prepare import Limits, find_model
from edgewise.study.request import request

ENGINES = ("ort:cpu@1", "openvino:cpu@1")


def planned(found: Graph) -> tuple[int, int]:
    """What the arena takes, and the least it could."""
    sizes, lives = arena.needs(found)
    return arena.place(sizes, lives)[1], arena.bound(sizes, lives)


def write(found: Graph, path: Path) -> str:
    """Both orders go through the same hand, so that nothing else differs."""
    inputs, outputs = ([found.values[name] for name in names] for names in (found.inputs, found.outputs))
    path.write_bytes(emit(found.nodes, found.constants, inputs, outputs, found.opset).SerializeToString())
    return str(path)


def peaks(files: Sequence[str], engine: str, starts: int) -> list[float | None]:
    """The peak of the engine's process for each file, in turns: the median over fresh processes."""
    seen: list[list[int]] = [[] for _ in files]
    for _ in range(starts):
        for place, cell in enumerate(request(files, (engine,), (1,), [Scenario()], Limits()).cells()):
            if isinstance(cell, Failure):
                continue
            try:
                with Session(cell) as session:
                    start = session.open()
            except EdgewiseError:
                continue
            if start.peak_bytes is not None and start.baseline_bytes is not None:
                seen[place].append(start.peak_bytes - start.baseline_bytes)
    return [median(each) if each else None for each in seen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=zoo.names())
    parser.add_argument("--starts", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for name in options.networks:
        model = find_model(name, Limits())
        found = graph(fixed(model, feeds.shapes(model, 1, {})))
        took, least = planned(found)
        better = reordered(found)
        row: dict[str, object] = {"network": name, "arena": took, "bound": least, "ratio": took / least}
        said = f"{name}: {took / 1e6:.2f} MB, {took / least:.3f} of the bound"
        if better is not found:
            arena_after, bound_after = planned(better)
            row |= {"arena_reordered": arena_after, "bound_reordered": bound_after}
            said += f"; in another order {arena_after / took:.3f} of that"
            with tempfile.TemporaryDirectory() as folder:
                files = [write(each, Path(folder) / f"{what}.onnx") for what, each in (("as", found), ("re", better))]
                for engine in ENGINES:
                    before, after = peaks(files, engine, options.starts)
                    row[engine] = (before, after)
                    if before and after:
                        said += f", {engine} peaks at {after / before:.3f} of before"
        rows.append(row)
        say(said)
    ratios = [float(str(row["ratio"])) for row in rows]
    finish("P6", max(ratios), (min(ratios), max(ratios)), 1.05, max(ratios) <= 1.05, networks=rows)


if __name__ == "__main__":
    main()
