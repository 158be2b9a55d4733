"""How far outputs are from the reference's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import CheckFailed
from ..core.types import Agreement


def agreement(outputs: Mapping[str, NDArray[Any]], reference: Mapping[str, NDArray[Any]]) -> Agreement:
    """One record over all outputs. Infinite or missing numbers count only where the two sides differ."""
    if set(outputs) != set(reference):
        raise CheckFailed(f"the outputs are {sorted(outputs)}, the reference's {sorted(reference)}")
    max_abs = reference_max = square = reference_square = 0.0
    nonfinite = elements = 0
    for name, expected in reference.items():
        found = np.asarray(outputs[name])
        if found.shape != expected.shape:
            raise CheckFailed(f"output {name!r} has shape {found.shape}, the reference's has {expected.shape}")
        if not found.size:
            continue
        a, b = found.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
        both = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        nonfinite += int(np.count_nonzero(~both & ~same))
        a, b = a[both], b[both]
        elements += found.size
        if a.size:
            difference = a - b
            max_abs = max(max_abs, float(np.abs(difference).max()))
            reference_max = max(reference_max, float(np.abs(b).max()))
            square += float(difference @ difference)
            reference_square += float(b @ b)
    n = max(elements, 1)
    return Agreement(max_abs, reference_max, (square / n) ** 0.5, (reference_square / n) ** 0.5, nonfinite, elements)
