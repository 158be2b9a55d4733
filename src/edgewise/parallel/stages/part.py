"""The process of one stage: it reads and writes in the slot of a frame, where every stage's values have a place.

python -m edgewise.parallel.stages.part PARENT READ_FD WRITE_FD MEMORY_FD
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.protocols import Executable
from ...core.records import from_json
from ..memory import Form, Slots
from ..part import serve
from ..split.run import bound


def _attach(
    executable: Executable, memory_fd: int, forms: list[Any], takes: list[str], gives: list[str], slots: int
) -> list[Callable[[], object]]:
    memory = Slots(memory_fd, [from_json(Form, each) for each in forms], slots)
    return [
        bound(executable, {name: memory[n][name] for name in takes}, {name: memory[n][name] for name in gives})
        for n in range(slots)
    ]


if __name__ == "__main__":
    serve(_attach)
