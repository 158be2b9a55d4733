"""macOS: Apple's powermetrics, whose stream of power samples is added up to energy."""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from xml.parsers.expat import ExpatError

from .meter import Found, Meter

_PERIOD_MS = 200
COMMAND = ("powermetrics", "-f", "plist", "-i", str(_PERIOD_MS), "--samplers", "cpu_power,gpu_power")
_STEP_UJ = 200
_CHUNK = 1 << 16
_END = b"</plist>"
_FIRST_SAMPLE_S = 10.0


def find(platform: str = sys.platform) -> Found:
    if platform != "darwin":
        return Found("powermetrics", missing=("only macOS has it",))
    if os.geteuid() != 0:
        return Found("powermetrics", missing=("powermetrics needs root; run the same command with sudo",))
    return Found("powermetrics", (meter(COMMAND),))


def meter(command: Sequence[str]) -> Meter:
    stream = Stream(command)
    return Meter(
        source="powermetrics",
        covers="package",
        counts=True,
        step=_STEP_UJ,
        update_ns=_PERIOD_MS * 1_000_000,
        value=stream.energy_uj,
        close=stream.close,
    )


def sample_uj(document: bytes) -> int | None:
    """The energy of one sample: CPU, GPU and neural engine on Apple's chips, the package on Intel's."""
    try:
        told = plistlib.loads(document)
        processor = told["processor"]
        milliwatts = processor.get("combined_power")
        if milliwatts is None and "cpu_power" in processor:
            milliwatts = sum(processor.get(f"{part}_power", 0) for part in ("cpu", "gpu", "ane"))
        if milliwatts is None:
            milliwatts = processor["package_watts"] * 1000
        # mW times ns is pJ.
        return int(milliwatts * told["elapsed_ns"] / 1_000_000)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, ExpatError):
        return None


class Stream:
    """The program, started with the first reading; a thread adds up what it says."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._total_uj: int | None = None
        self._told = threading.Event()

    def energy_uj(self) -> int | None:
        """None where the program does not start, says something else, or has ended."""
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            except OSError:
                return None
            threading.Thread(target=self._listen, args=(self._process,), name="powermetrics", daemon=True).start()
            self._told.wait(_FIRST_SAMPLE_S)
        return self._total_uj

    def close(self) -> None:
        process, self._process = self._process, None
        if process:
            process.terminate()
            process.wait()
        self._total_uj = None
        self._told.clear()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout
        rest, total_uj = b"", 0
        with process.stdout as output:
            while chunk := os.read(output.fileno(), _CHUNK):
                # A zero byte stands between two samples; waiting for it would make each a period late.
                *documents, rest = (rest + chunk).split(_END)
                for document in documents:
                    used_uj = sample_uj(document.strip(b"\0 \r\n\t") + _END)
                    if used_uj is None:
                        self._total_uj = None
                        self._told.set()
                        return
                    total_uj += used_uj
                    self._total_uj = total_uj
                    self._told.set()
        self._total_uj = None
        self._told.set()
