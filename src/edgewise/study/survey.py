"""What is here: the machine, and every engine with its devices, asked in workers of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..core import registry
from ..core.errors import EdgewiseError, InputError
from ..core.records import from_json
from ..core.types import Device, Machine
from ..measure import isolate
from ..system.machine import machine

_TIMEOUT_S = 60.0
# Each is a process that imports a library.
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """An engine as found here; without a version it is missing, and `reason` and `hint` say why and what to do."""

    name: str
    version: str | None = None
    devices: tuple[Device, ...] = ()
    variants: tuple[tuple[str, tuple[tuple[tuple[str, str], ...], ...]], ...] = ()
    defaults: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    # The optional functions it has.
    functions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    computes: bool = True
    # Suffixes of the files it loads; where it has a converter (of that version), ONNX files become such ones.
    reads: tuple[str, ...] = (".onnx",)
    converter: str | None = None
    # Target options that change what the converter writes.
    settings: tuple[str, ...] = ()
    reason: str = ""
    hint: str | None = None

    def device(self, name: str | None) -> Device:
        """The device of that name, or the first; an error lists the valid ones."""
        if name is None:
            return self.devices[0]
        base = name.partition("(")[0]
        for device in self.devices:
            if name == device.name or (base == device.name and device.composite):
                return device
        known = ", ".join(device.name for device in self.devices)
        raise InputError(f"{self.name} has no device {name!r} here; it has {known}", "edgewise devices")


def survey(names: Iterable[str] | None = None) -> tuple[Machine, tuple[EngineFacts, ...]]:
    """The machine and the engines named, or all."""
    here = machine()
    wanted = tuple(names) if names is not None else registry.names("engines")
    for name in wanted:
        registry.find("engines", name)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return here, tuple(pool.map(lambda name: _facts(name, here), wanted))


def _facts(name: str, here: Machine) -> EngineFacts:
    try:
        found: dict[str, Any] = isolate.call("edgewise.engines:describe", timeout_s=_TIMEOUT_S, name=name)
    except EdgewiseError as error:
        return EngineFacts(name, reason=error.message, hint=error.hint)
    devices = tuple(from_json(Device, device) for device in found["devices"])
    return EngineFacts(
        name,
        found["version"],
        _with_clusters(devices, here),
        tuple(
            (device, tuple(tuple((k, v) for k, v in options) for options in sets))
            for device, sets in found["variants"].items()
        ),
        tuple((precision, tuple((k, v) for k, v in pairs)) for precision, pairs in found["defaults"].items()),
        tuple(found["functions"]),
        tuple(found["options"]),
        found["computes"],
        tuple(found["reads"]),
        found["converter"],
        tuple(found["settings"]),
    )


def _with_clusters(devices: Sequence[Device], here: Machine) -> tuple[Device, ...]:
    """Each kind of core becomes a device of its own: cpu.big, cpu.little, cpu.p, cpu.e."""
    shown: list[Device] = []
    for device in devices:
        if device.name != "cpu":
            shown.append(device)
            continue
        shown.append(Device(device.name, "cpu", device.label, here.cores, here.memory_bytes, device.precisions))
        if len(here.clusters) > 1:
            shown += [
                Device(
                    f"{device.name}.{c.name}",
                    "cpu",
                    device.label,
                    c.cores,
                    here.memory_bytes,
                    device.precisions,
                )
                for c in here.clusters
            ]
    return tuple(shown)
