"""The roofs of a CUDA device: large matrix products by precision, and bytes read and copied, timed by CUDA events."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...core.roofs import Roof
from ...core.types import Device

# Large enough to fill the largest processors, small enough that all of it takes a second; three matrices at a time.
_SIDE = 8192
_SMALLEST = 1024
_BUFFER_BYTES = 2 << 30
# Of the memory that is free.
_SHARE = 0.25
_WARMUP, _TRIES = 3, 10
_LONGEST = 200


def measure(device: Device) -> tuple[Sequence[Roof], Sequence[tuple[str, str]]]:
    """Best and worst of several tries of each; what this device or this torch cannot do is missing, with the reason."""
    import torch

    place = torch.device(device.name.replace(".", ":"))
    free_bytes = int(torch.cuda.mem_get_info(place)[0] * _SHARE)
    side = _SIDE
    while side > _SMALLEST and 3 * 4 * side * side > free_bytes:
        side //= 2
    found: list[Roof] = []
    missing: list[tuple[str, str]] = []
    operations = 2 * side**3

    def roof(kind: Any, name: str, amount: int, method: str, make: Callable[[], Callable[[], object]]) -> None:
        try:
            seconds = _seconds(make(), place)
        except (RuntimeError, NotImplementedError, AttributeError) as error:
            missing.append((name, " ".join(str(error).split())[:_LONGEST]))
        else:
            found.append(Roof(kind, name, amount / min(seconds), amount / max(seconds), method))
        torch.cuda.empty_cache()

    for name in ("fp32", "tf32", "fp16", "bf16"):
        if name not in device.precisions:
            missing.append((name, f"{device.label} has no {name}"))
            continue
        method = f"torch.matmul, {side} x {side}"
        roof("compute", name, operations, method, lambda name=name: _product(name, side, place))  # type: ignore[misc]
    roof("compute", "int8", operations, f"torch._int_mm, {side} x {side}", lambda: _int_product(side, place))
    size = min(_BUFFER_BYTES, free_bytes // 2) // 4096 * 4096
    shown = f"{size >> 20} MiB"
    roof("memory", "memory", size, f"torch.sum, {shown}", lambda: _reading(size, place))
    roof("memory", "memory copy", 2 * size, f"Tensor.copy_ on the device, {shown}", lambda: _copying(size, place))
    return found, missing


def _product(precision: str, side: int, place: Any) -> Callable[[], object]:
    import torch

    with warnings.catch_warnings():
        # As when a network is run: of torch's two ways to say this, each warns of the other.
        warnings.simplefilter("ignore")
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    # Noise, not zeros: how much power a product takes, and so the clock, depends on its numbers.
    a, b = (torch.randn(side, side, device=place, dtype=kind) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.matmul(a, b, out=out)


def _int_product(side: int, place: Any) -> Callable[[], object]:
    import torch

    a, b = (torch.randint(-128, 128, (side, side), device=place, dtype=torch.int8) for _ in range(2))
    # The second one by columns, as the library likes it best.
    return lambda: torch._int_mm(a, b.t())


def _reading(size: int, place: Any) -> Callable[[], object]:
    import torch

    source = torch.ones(size // 4, device=place)
    return lambda: torch.sum(source)


def _copying(size: int, place: Any) -> Callable[[], object]:
    import torch

    source = torch.ones(size // 4, device=place)
    sink = torch.empty_like(source)
    return lambda: sink.copy_(source)


def _seconds(run: Callable[[], object], place: Any) -> list[float]:
    import torch

    with torch.cuda.device(place):
        for _ in range(_WARMUP):
            run()
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(_TRIES)]
        for begin, end in marks:
            begin.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in marks]
