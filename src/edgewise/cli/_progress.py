"""Progress on stderr: one line that moves on a terminal, one line per cell elsewhere."""

from __future__ import annotations

import sys
import time


class Progress:
    def __init__(self, total: int) -> None:
        self._total = total
        self._moving = sys.stderr.isatty()
        self._began = time.monotonic()
        self._said = ""

    def cell(self, number: int, what: str) -> None:
        self._said = f"[{number + 1}/{self._total}] {what}"
        self._write(self._said if self._moving else self._said + "\n")

    def say(self, what: str) -> None:
        """Where nobody can tell how many there will be."""
        self._said = what
        self._write(what if self._moving else what + "\n")

    def detail(self, what: str) -> None:
        if self._moving:
            self._write(f"{self._said}  {what}")

    def _write(self, line: str) -> None:
        # Back to the margin, clear to the end of the line.
        sys.stderr.write(f"\r\x1b[2K{line}" if self._moving else line)
        sys.stderr.flush()

    def done(self) -> None:
        if self._moving:
            self._write("")
