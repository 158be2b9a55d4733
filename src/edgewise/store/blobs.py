"""Numbers as bytes: 64 bits each, little-endian, in order."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Any


def pack(numbers: Iterable[int]) -> bytes:
    return _bytes(array("q", numbers))


def unpack(data: bytes) -> tuple[int, ...]:
    return tuple(_filled(array("q"), data))


def pack_floats(numbers: Iterable[float]) -> bytes:
    return _bytes(array("d", numbers))


def unpack_floats(data: bytes) -> tuple[float, ...]:
    return tuple(_filled(array("d"), data))


def _bytes(numbers: array[Any]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _filled(numbers: array[Any], data: bytes) -> array[Any]:
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
