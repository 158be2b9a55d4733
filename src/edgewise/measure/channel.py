"""Messages between a parent and its worker: one JSON object a line, on a private pair of pipes.

Not stdout: that belongs to the native libraries, which print what they like. Not pickle: nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

_BLOCK = 1 << 16


class Closed(Exception):
    """The other side is gone."""


class Channel:
    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._buffer = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        data = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        try:
            while data:
                data = data[os.write(self.write_fd, data) :]
        except (BrokenPipeError, OSError) as error:
            raise Closed from error

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The next message; TimeoutError after `timeout_s`; Closed when the other side is gone."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                message: dict[str, Any] = json.loads(line)
                return message
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                    raise TimeoutError
            try:
                block = os.read(self.read_fd, _BLOCK)
            except OSError as error:
                raise Closed from error
            if not block:
                raise Closed
            self._buffer += block

    def close(self) -> None:
        for fd in (self.read_fd, self.write_fd):
            try:
                os.close(fd)
            except OSError:
                continue
