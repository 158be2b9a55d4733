"""A kernel: a loop of machine code that does nothing but one kind of work, and the values it works on."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kernel:
    """`run(times, data, blocks, sink)`: arithmetic needs the first two, loads and copies go over `blocks` blocks.

    `work` is what one turn of the inner loop does: operations (a multiply-add is two), or bytes read and written. `isa`
    is the kernel's name for the instruction set, as `Machine.isa` lists it.
    """

    roof: str
    isa: str
    instruction: str
    work: int
    assembly: str
    code: str
    seed: bytes = b""

    @property
    def moves(self) -> bool:
        return self.roof in ("read", "copy")

    @property
    def block_bytes(self) -> int:
        """How far one turn of the inner loop walks on in the data."""
        return self.work // 2 if self.roof == "copy" else self.work

    def text(self) -> dict[str, Any]:
        """As it is handed to another process."""
        return asdict(self) | {"seed": self.seed.hex()}

    @classmethod
    def parse(cls, text: Mapping[str, Any]) -> Kernel:
        return cls(**{**text, "seed": bytes.fromhex(text["seed"])})


# Numbers whose products neither overflow, nor vanish, nor are all zero, which would cost less power and so less clock.
_SMALL = struct.pack("<f", 1e-3)
FLOAT = _SMALL * 32
HALF = struct.pack("<e", 1e-2) * 64
BRAIN = _SMALL[2:] * 64
# Then ones of 16 bits, to add up pairs with.
BYTES = b"\x03" * 64 + b"\x01\x00" * 32
# Eight tiles of 16 rows of 64 bytes, and what is loaded into two of them.
TILES = struct.pack("<BB14x8H16x8B8x", 1, 0, *[64] * 8, *[16] * 8) + _SMALL[2:] * 512
