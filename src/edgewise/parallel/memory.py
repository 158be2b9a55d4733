"""Memory that several processes see: slots of equal form, each a set of named arrays."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.protocols import Array

# Where an array begins, in bytes: a cache line, so that two processes never write to the same one, and what vector
# instructions want.
_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Form:
    """An array of a slot."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> tuple[Form, ...]:
        return tuple(cls(name, str(array.dtype), tuple(array.shape)) for name, array in arrays.items())

    @property
    def size(self) -> int:
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))


def create() -> int:
    """A descriptor of memory without a name, which is gone with the last process that has it. It has no size yet."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("edgewise")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Slots:
    """`count` slots of these forms in the memory behind `fd`; whoever has the same forms and count sees the same."""

    def __init__(self, fd: int, forms: Sequence[Form], count: int, *, grow: bool = False) -> None:
        places, size = [], 0
        for form in forms:
            places.append(size)
            size += -(-form.size // _ALIGN) * _ALIGN
        whole = max(1, size) * count
        if grow:
            os.ftruncate(fd, whole)
        self._map = mmap.mmap(fd, whole)
        # Views are made once: making one for every run would cost more than small networks take.
        self._slots = [
            {
                form.name: np.frombuffer(
                    self._map, form.dtype, int(np.prod(form.shape, dtype=np.int64)), slot * size + place
                ).reshape(form.shape)
                for form, place in zip(forms, places, strict=True)
            }
            for slot in range(count)
        ]

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, slot: int) -> dict[str, Array]:
        return self._slots[slot]

    def close(self) -> None:
        """Somebody may still hold a view: then the memory stays until that is gone."""
        self._slots.clear()
        try:
            self._map.close()
        except BufferError:
            return


def fill(slot: Mapping[str, Array], values: Mapping[str, Any]) -> None:
    for name, array in slot.items():
        value = values[name]
        if value is not array:
            np.copyto(array, value, casting="no")
