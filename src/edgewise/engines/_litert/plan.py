"""Which operators of a .tflite file run where and in what, as far as an interpreter tells."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ...core.types import Ran

# They only turn one kind of number into another.
_CONVERSIONS = ("DELEGATE", "QUANTIZE", "DEQUANTIZE")


def integer_operators(interpreter: Any) -> int:
    """How many operators compute in 8-bit integers."""
    tensors = _tensors(interpreter)
    return sum(_precision(operator, tensors) == "int8" for operator in interpreter._get_ops_details())


def account(interpreter: Any, delegated: str = "fp32") -> Ran:
    """What runs on XNNPACK and what does not; XNNPACK's floats are of the precision `delegated`.

    LiteRT lists all operators, also those that XNNPACK took over: what is left to itself is found from the outputs
    back, since what XNNPACK makes is listed as made by the delegate, last.
    """
    operators, tensors = interpreter._get_ops_details(), _tensors(interpreter)
    makers = {int(i): operator for operator in operators for i in operator["outputs"]}
    waiting = [int(details["index"]) for details in interpreter.get_output_details()]
    seen: set[int] = set()
    while waiting:
        operator = makers.get(waiting.pop())
        if operator is not None and operator["index"] not in seen:
            seen.add(operator["index"])
            waiting.extend(int(i) for i in operator["inputs"] if i >= 0)
    real = [operator for operator in operators if operator["op_name"] != "DELEGATE"]
    left = [operator for operator in real if operator["index"] in seen]
    precisions: Counter[str] = Counter()
    for operator in real:
        found = _precision(operator, tensors)
        if found is not None:
            precisions[delegated if found == "fp32" and operator["index"] not in seen else found] += 1
    notes = [f"{len(real) - len(left)} of {len(real)} operators on XNNPACK"]
    if left:
        kinds = Counter(operator["op_name"] for operator in left)
        notes.append("on LiteRT's own kernels: " + ", ".join(f"{n} × {kind}" for kind, n in kinds.most_common(6)))
    return Ran(devices=("cpu",), precisions=tuple(sorted(precisions.items())), notes=tuple(notes))


def _tensors(interpreter: Any) -> dict[int, Any]:
    return {details["index"]: details for details in interpreter.get_tensor_details()}


def _precision(operator: dict[str, Any], tensors: dict[int, Any]) -> str | None:
    """What an operator computes in; None for one that only converts, or works on labels and sizes."""
    if operator["op_name"] in _CONVERSIONS:
        return None
    made = [tensors[i] for i in operator["outputs"] if i in tensors]
    read = [tensors[i] for i in operator["inputs"] if i in tensors]
    if any(len(each["quantization_parameters"]["scales"]) and each["dtype"] in (np.int8, np.uint8) for each in made):
        return "int8"
    return "fp32" if any(each["dtype"] == np.float32 for each in (*made, *read)) else None
