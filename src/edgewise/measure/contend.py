"""Competing processes: reproducible, pinned or not, compute-, memory- or cache-bound.

`python -m edgewise.measure.contend KIND CORES` is one of them; it says `ready` and works until its parent goes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.errors import EngineFailure
from ..core.types import Contention

_MEMORY_BYTES = 256 << 20  # beyond any last-level cache, so that each pass goes to memory
_CACHE_BYTES = 2 << 20  # a private second-level cache's worth, walked at random


@contextmanager
def competing(contention: Contention | None) -> Iterator[list[int]]:
    """Process ids of the competitors, all of them working when this yields."""
    if contention is None:
        yield []
        return
    cores = "+".join(map(str, contention.cores)) or "-"
    # One thread each: the number of competitors says how much competition there is.
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-m", "edgewise.measure.contend", contention.kind, cores, str(os.getpid())]
    # In this session: what competes does so task by task, on equal terms with what is measured.
    children = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, process_group=0, env=env)
        for _ in range(contention.n)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            if child.stdout.readline().strip() != b"ready":
                raise EngineFailure(f"a competing process ({contention}) did not start")
        yield [child.pid for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


def _work(kind: str) -> Iterator[None]:
    import numpy as np

    random = np.random.default_rng(0)
    if kind == "compute":
        a = random.standard_normal((256, 256), dtype=np.float32)
        while True:
            a @ a
            yield
    if kind == "memory":
        source = np.ones(_MEMORY_BYTES // 8)
        sink = np.empty_like(source)
        while True:
            np.copyto(sink, source)
            yield
    lines = random.permutation(_CACHE_BYTES // 8)
    values = np.ones(_CACHE_BYTES // 8)
    while True:
        values.take(lines)
        yield


def main() -> None:
    from ..system.process import die_with_parent

    kind, cores, parent = sys.argv[1:4]
    die_with_parent(int(parent))
    if cores != "-":
        from ..system.affinity import pin

        pin(tuple(int(core) for core in cores.split("+")))
    work = _work(kind)
    next(work)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for _ in work:
        if os.getppid() != int(parent):
            return


if __name__ == "__main__":
    main()
