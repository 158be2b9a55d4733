"""Count the multiply-adds of EmBench's 26 networks with public counters, and hold the catalog beside them.

    python -m venv COUNTERS
    COUNTERS/bin/pip install torch torchvision timm pretrainedmodels six fvcore thop onnx-tool
    python tools/counters.py --python COUNTERS/bin/python [--write] [NETWORK ...]

The counters need frameworks that edgewise does not, so they run in an environment of their own: this file starts itself
there. With --write, what they said is kept in tests/zoo/counters.json, and the table in docs/multiply-adds.md.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "tests" / "zoo" / "counters.json"
PAGE = ROOT / "docs" / "multiply-adds.md"
# Where somebody else's implementation of a network is, under which name; all others are torchvision's, under ours.
ELSEWHERE = {
    "inception_v4": ("timm", "inception_v4"),
    "nasnetalarge": ("timm", "nasnetalarge"),
    "nasnetamobile": ("pretrainedmodels", "nasnetamobile"),
    "pnasnet5large": ("timm", "pnasnet5large"),
    "xception": ("timm", "legacy_xception"),
}
SIZES = {"inception_v3": 299, "inception_v4": 299, "xception": 299, "nasnetalarge": 331, "pnasnet5large": 331}
PAGE_TEXT = """<!-- Written by `python tools/counters.py --python PYTHON --write`. -->

# Multiply-adds, counted by others

Millions of multiply-adds of one image, by edgewise (`edgewise zoo`, `edgewise inspect`) and by four public
counters, for the 26 networks of EmBench's Table 1. The largest difference is {worst}.

Counted on {date} with {versions}.

* **fvcore** and **thop** count the original network, from {sources}.
  Both also count batch normalization and pooling; here are their figures for convolutions and linear layers: what
  fvcore lists under those operators, and what thop gives when its rules for everything else are set to nothing.
* **torch** is PyTorch's own `FlopCounterMode` on the same network. It counts convolutions and matrix products
  only, two for each multiply-add: here is half its figure.
* **onnx-tool** counts the file that edgewise exports. It takes the addition of a bias for one more, so biases
  are taken out of the file first.

{stops}

| network | edgewise | fvcore | torch | thop | onnx-tool |
|---|---|---|---|---|---|
{rows}

NASNet mobile differs because the implementation in pretrainedmodels gives a convolution with stride one row and
column of padding more than it needs, computes with them, and cuts the result off again.

## Table 1's own figures

How EmBench counted its "FLOPs" is not said there. This rule, found by trying on these same figures, gives {exact}
of the {networks} back to the second decimal: the multiply-adds of convolutions, and five times the sum of the
multiply-adds of linear layers with their biases, the outputs of ReLUs, and the window elements of pooling
(without the windows that rounding up adds). Batch normalization, additions and the biases of convolutions are
free. Only modules count: what a network calls as a function (DenseNet's last ReLU, MobileNetV2's mean, all
activations of Inception v3) is not in it.

`rule` is that, on the original networks as they are today; `off` is what is left.

| network | Table 1 | Table 1 / multiply-adds | rule | off |
|---|---|---|---|---|
{table}

Linear layers count five times, which is why AlexNet lies a third above its multiply-adds. MnasNet fits at 299×299
(as here), not at the 224×224 of its paper: that alone doubles it. For the others there are likely reasons. The
last pooling of ShuffleNetV2 and MnasNet is a function today; as a module it adds 0.25 M and 0.64 M by this rule.
Inception v3 fits with its training head (2.46 M in each of two convolutions, 5 × 0.77 M in a linear layer) and
without pooling, which torchvision made of modules later: 5,730.17 M. Xception fits if the four ReLUs outside of
its blocks are left out: 5 × 2.452 M.
"""
COUNTERS = ("fvcore", "torch", "thop", "onnx-tool")
# Table 1 has this network at another size than its paper, and these as they were before timm had them.
TABLE_SIZES = {"mnasnet1_0": 299}
TABLE_NETWORKS = dict.fromkeys(("nasnetalarge", "pnasnet5large", "xception"), "pretrainedmodels")


# In the environment of the counters: nothing of edgewise is imported here.


def count(folder: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    """One record per network and counter: its multiply-adds, all it counts, or why it stopped."""
    import torch

    torch.set_grad_enabled(False)
    for name in names:
        source, original = ELSEWHERE.get(name, ("torchvision", name))
        size = SIZES.get(name, 224)
        model = _original(source, original).eval()
        image = torch.zeros(1, 3, size, size)
        theirs = f"{original} of {source} {version(source)}"
        older = _original(TABLE_NETWORKS[name], name).eval() if name in TABLE_NETWORKS else model
        of, then = TABLE_NETWORKS.get(name, source), TABLE_SIZES.get(name, size)
        rule = {"counter": "table 1 rule", "implementation": f"{name} of {of} {version(of)}", "size": then}
        yield rule | {"everything": _table1(older, then)}
        for counter, function in (("fvcore", _fvcore), ("torch", _torch), ("thop", _thop)):
            yield _record(counter, theirs, size, partial(function, model, image))
        yield _record("onnx-tool", f"{name} of edgewise", size, partial(_onnx_tool, folder / f"{name}.onnx"))


def _record(
    counter: str, implementation: str, size: int, function: Callable[[], tuple[float, float]]
) -> dict[str, Any]:
    record = {"counter": counter, "implementation": implementation, "size": size}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            multiply_adds, everything = function()
    except Exception as error:  # noqa: BLE001  a counter that stops is a result
        return record | {"stopped": f"{type(error).__name__}: {error}"[:200]}
    return record | {"multiply_adds": round(multiply_adds), "everything": round(everything)}


def _original(source: str, name: str) -> Any:
    import torch

    # Its compiled operators (for detection) may be built for another torch; classifiers use none of them.
    register = torch.library.register_fake
    torch.library.register_fake = lambda op, *rest, **options: (
        (lambda function: function) if str(op).startswith("torchvision::") else register(op, *rest, **options)
    )
    if source == "timm":
        return importlib.import_module("timm").create_model(name)
    if source == "pretrainedmodels":
        return getattr(importlib.import_module("pretrainedmodels"), name)(num_classes=1000, pretrained=None)
    extra = {"init_weights": False} if name == "inception_v3" else {}
    return getattr(importlib.import_module("torchvision.models"), name)(**extra)


def _fvcore(model: Any, image: Any) -> tuple[float, float]:
    """It counts a multiply-add as one, and batch normalization and pooling besides."""
    from fvcore.nn import FlopCountAnalysis

    found = FlopCountAnalysis(model, image).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    by_operator = found.by_operator()
    return sum(by_operator[kind] for kind in ("conv", "linear", "addmm", "matmul")), found.total()


def _torch(model: Any, image: Any) -> tuple[float, float]:
    """It counts a multiply-add as two, and nothing but convolutions and matrix products."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model(image)
    return counter.get_total_flops() / 2, counter.get_total_flops()


def _thop(model: Any, image: Any) -> tuple[float, float]:
    """Twice: with its rules for convolutions and linear layers only, and with all of them.

    It goes by the exact type of a module, so it has to be told that timm's own convolutions are convolutions.
    """
    from thop import profile
    from thop.profile import register_hooks
    from thop.vision.basic_hooks import count_convNd, count_linear, zero_ops
    from torch import nn

    theirs = {type(module) for module in model.modules() if isinstance(module, nn.Conv2d)} - set(register_hooks)
    convolutions = dict.fromkeys(theirs, count_convNd)
    others = {kind: zero_ops for kind, rule in register_hooks.items() if rule not in (count_convNd, count_linear)}
    only, _ = profile(model, (image,), custom_ops=others | convolutions, verbose=False)
    everything, _ = profile(model, (image,), custom_ops=convolutions, verbose=False)
    return only, everything


def _onnx_tool(path: Path) -> tuple[float, float]:
    """Of the file we export. It counts a bias as one more for each output, so that biases are taken out first."""
    import onnx

    proto = onnx.load(str(path))
    everything = sum(_onnx_tool_nodes(proto).values())
    for node in proto.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            del node.input[2:]
    by_operator = _onnx_tool_nodes(proto)
    return sum(by_operator.get(kind, 0.0) for kind in ("Conv", "Gemm", "MatMul")), everything


def _onnx_tool_nodes(proto: Any) -> dict[str, float]:
    import onnx_tool

    graph = onnx_tool.Model(proto, {"verbose": False}).graph
    graph.graph_reorder_nodes()
    graph.shape_infer(None)
    graph.profile()
    found: dict[str, float] = {}
    for node in graph.nodemap.values():
        found[node.op_type] = found.get(node.op_type, 0.0) + node.macs[0]
    return found


def _table1(model: Any, size: int) -> int:
    """The rule that gives Table 1 back: convolutions, and five times linear, ReLU and pooling modules."""
    import torch
    from torch import nn

    total = 0

    def add(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        nonlocal total
        if isinstance(module, nn.Conv2d):
            total += output.numel() * module.weight[0].numel()
        elif isinstance(module, nn.Linear):
            total += 5 * output.numel() * (module.in_features + 1)
        elif isinstance(module, nn.ReLU | nn.ReLU6):
            total += 5 * output.numel()
        elif isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
            window, step, pad = (_side(value) for value in (module.kernel_size, module.stride, module.padding))
            places = (inputs[0].shape[-1] + 2 * pad - window) // step + 1
            total += 5 * output.shape[1] * (places * window) ** 2
        elif isinstance(module, nn.AdaptiveAvgPool2d):
            total += 5 * output.numel() * (inputs[0].shape[-1] // output.shape[-1]) ** 2

    leaves = [module for module in model.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(add) for module in leaves]
    model(torch.zeros(1, 3, size, size))
    for hook in hooks:
        hook.remove()
    return total


def _side(value: int | tuple[int, int]) -> int:
    return value if isinstance(value, int) else value[0]


# In the environment of edgewise.


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--python", help="the interpreter of the environment that has the counters")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write the page")
    parser.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.count:
        print(json.dumps({"versions": {counter: version(counter) for counter in COUNTERS}}), flush=True)
        for record in count(arguments.count, arguments.networks):
            print(json.dumps(record), flush=True)
        return
    from edgewise.zoo.published import PUBLISHED

    names = arguments.networks or list(PUBLISHED)
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) if not arguments.python else {}
    found = kept or measured(arguments.python, names)
    print(page(found))
    if arguments.write:
        FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(found), encoding="utf-8")


def page(found: dict[str, Any]) -> str:
    from edgewise.zoo.catalog import CATALOG
    from edgewise.zoo.published import PUBLISHED

    versions = ", ".join(f"{counter} {found['versions'][counter]}" for counter in COUNTERS)
    rows, table, implementations, stops = [], [], [], []
    worst, exact = 0.0, 0
    for name, records in found["networks"].items():
        ours = CATALOG[name].multiply_adds
        cells = []
        for counter in COUNTERS:
            record = records[counter]
            if "stopped" in record:
                stops.append(f"* {counter} on {name}: {record['stopped']}")
                cells.append("stopped")
                continue
            difference = record["multiply_adds"] / ours - 1
            worst = max(worst, abs(difference))
            cells.append(f"{record['multiply_adds'] / 1e6:,.2f}" + (f" ({difference:+.2%})" if difference else ""))
        rows.append(f"| {name} | {ours / 1e6:,.2f} | {' | '.join(cells)} |")
        implementations.append(records["fvcore"]["implementation"])
        theirs, rule = PUBLISHED[name].flops_m, records["table 1 rule"]["everything"] / 1e6
        exact += abs(theirs - rule) < 0.01
        table.append(f"| {name} | {theirs:,.2f} | {theirs / ours * 1e6:.3f} | {rule:,.2f} | {theirs / rule - 1:+.3%} |")
    sources = sorted({text.partition(" of ")[2] for text in implementations})
    return PAGE_TEXT.format(
        date=found["date"],
        versions=versions,
        sources=", ".join(sources),
        worst=f"{worst:.2%}",
        exact=exact,
        networks=len(table),
        stops="\n".join(stops) or "No counter stopped on any network.",
        rows="\n".join(rows),
        table="\n".join(table),
    )


def measured(python: str, names: list[str]) -> dict[str, Any]:
    from edgewise import zoo

    found: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "networks": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            zoo.export(name, f"{folder}/{name}.onnx", batch=1)
            command = [python, str(Path(__file__).resolve()), "--count", folder, name]
            lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            (first, *records) = [json.loads(line) for line in lines if line.startswith("{")]
            found |= first
            found["networks"][name] = {record.pop("counter"): record for record in records}
            print(name, file=sys.stderr, flush=True)
            (Path(folder) / f"{name}.onnx").unlink()
    return found


if __name__ == "__main__":
    main()
