"""Foreign converters: they die by signal, fail, or report success without having done anything."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import EngineFailure

_LAST_LINES = 12


def run_converter(name: str, command: Sequence[str], made: Path) -> str:
    """Run `command` in the folder of `made`, the file it must write; what it printed comes back.

    No time-out here: the caller sits in a worker that has one, and takes its children with it.
    """
    made.unlink(missing_ok=True)
    done = subprocess.run(
        command,
        cwd=made.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    said = done.stdout.decode(errors="replace")
    if done.returncode < 0:
        raise EngineFailure(f"{name} died by {signal.Signals(-done.returncode).name} while converting{_last(said)}")
    if done.returncode > 0:
        raise EngineFailure(f"{name} failed to convert, with exit code {done.returncode}{_last(said)}")
    if not made.is_file() or made.stat().st_size == 0:
        raise EngineFailure(f"{name} reported success and wrote no {made.name}{_last(said)}")
    return said


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return ": " + " / ".join(lines[-_LAST_LINES:]) if lines else ""
