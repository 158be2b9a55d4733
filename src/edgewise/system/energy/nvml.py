"""NVIDIA's management library: total energy of a GPU, or its power on those older than Volta."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .meter import Found, Meter

_LIBRARY = "libnvidia-ml.so.1"
# Observed refresh periods lie between 20 and 100 ms, by model: the worst counts.
_UPDATE_NS = 100_000_000
_MILLI = 1000


def load() -> Any:
    """The library; OSError where there is none."""
    return ctypes.CDLL(_LIBRARY)


def find(load: Callable[[], Any] = load) -> Found:
    """One meter for each GPU. They are counted as nvidia-smi does, which CUDA follows only when told to."""
    try:
        library = load()
    except OSError:
        return Found("nvml", missing=(f"{_LIBRARY} is not here: no NVIDIA driver",))
    code = library.nvmlInit_v2()
    if code:
        return Found("nvml", missing=(f"NVML does not start (code {code}); nvidia-smi says why",))
    count = ctypes.c_uint()
    code = library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if code or not count.value:
        return Found("nvml", missing=(f"NVML sees no GPU (code {code})",))
    found, missing = [], []
    for index in range(count.value):
        meter = _gpu(library, index)
        if isinstance(meter, Meter):
            found.append(meter)
        else:
            missing.append(meter)
    return Found("nvml", tuple(found), tuple(missing))


def _gpu(library: Any, index: int) -> Meter | str:
    handle = ctypes.c_void_p()
    code = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
    if code:
        return f"gpu {index} cannot be opened (code {code})"
    # mJ since the driver was loaded, and mW.
    energy = _asked(library, "nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.c_ulonglong)
    power = _asked(library, "nvmlDeviceGetPowerUsage", handle, ctypes.c_uint)
    for counts, value in ((True, energy), (False, power)):
        if value() is not None:
            return Meter(
                source="nvml", covers=f"gpu {index}", counts=counts, step=_MILLI, update_ns=_UPDATE_NS, value=value
            )
    return f"gpu {index} tells neither energy nor power"


def _asked(library: Any, name: str, handle: ctypes.c_void_p, kind: type[Any]) -> Callable[[], int | None]:
    # Old drivers lack the one that counts energy.
    function = getattr(library, name, None)

    def value() -> int | None:
        answer = kind()
        failed = function is None or function(handle, ctypes.byref(answer))
        return None if failed else int(answer.value) * _MILLI

    return value
