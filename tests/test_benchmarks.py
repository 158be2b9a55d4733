"""Every benchmark starts: what it measures is not for tests to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
FILES = sorted(path.name for path in FOLDER.glob("[!_]*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_benchmark_says_how_it_is_run(name: str) -> None:
    shown = subprocess.run([sys.executable, FOLDER / name, "--help"], capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stderr
    assert "usage:" in shown.stdout
