"""The package as a whole: light to import, small files, documented commands, nothing unpickled."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import edgewise
from edgewise.core import registry

ROOT = Path(__file__).parent.parent
SOURCE = Path(edgewise.__file__).parent


@pytest.mark.alone
def test_importing_edgewise_imports_no_engine_and_takes_no_time() -> None:
    code = (
        "import sys, time; begin = time.perf_counter(); import edgewise; "
        "print(time.perf_counter() - begin); print(*sys.modules)"
    )
    times = []
    for _ in range(5):
        seconds, modules = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True
        ).stdout.splitlines()
        times.append(float(seconds))
        assert not {"numpy", "onnx", "onnxruntime", "openvino"} & set(modules.split())
    assert min(times) < 0.15


def test_no_file_is_a_drawer() -> None:
    sizes = sorted((len(path.read_text().splitlines()), str(path)) for path in SOURCE.rglob("*.py"))
    assert sizes[-1][0] <= 500, sizes[-1]
    assert sizes[len(sizes) // 2][0] <= 120


def test_every_command_is_documented() -> None:
    reference = (ROOT / "docs" / "reference" / "commands.md").read_text()
    readme = (ROOT / "README.md").read_text()
    for name in registry.names("cli"):
        assert f"## edgewise {name}" in reference
        assert f"edgewise {name}" in readme


@pytest.mark.parametrize("forbidden", [r"\bpickle\b", r"allow_pickle=True", r"shell=True", r"\beval\(", r"\bexec\("])
def test_nothing_dangerous(forbidden: str) -> None:
    for path in SOURCE.rglob("*.py"):
        code = "\n".join(line for line in path.read_text().splitlines() if not line.strip().startswith(("#", "Not ")))
        assert not re.search(forbidden, code), path


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
