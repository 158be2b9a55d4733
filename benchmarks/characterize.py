"""P7: how long it takes to know one model on this machine: all engines, a batch sweep, profiles, roofline, report.

In fp32 and int8, on all cores, five batch sizes (with 16-bit floats as well, 80 cells instead of 50, it took 354 s).

What a user would type: `edgewise study` with the file below, then `edgewise report`, from an empty store and an empty
cache, so that conversions and quantization count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _goal import finish, say

BAR_S = 300.0
STUDY = """
name = "characterize"
protocol = "quick"
models = ["{model}"]
precisions = ["fp32", "int8"]
threads = "all"
batch = [1, 2, 4, 8, 16]
profile = true
support = true
roofs = true
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mobilenet_v2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = {name: f"{folder}/{name}" for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME")}
        (Path(folder) / "one.toml").write_text(STUDY.format(model=options.model))
        took: dict[str, float] = {}

        def edgewise(what: str, *arguments: str) -> None:
            begin = time.monotonic()
            command = [sys.executable, "-m", "edgewise", *arguments]
            whole = os.environ | home
            done = subprocess.run(command, cwd=folder, env=whole, capture_output=True, text=True, check=False)
            took[what] = time.monotonic() - begin
            say(f"{what}: {took[what]:.0f} s")
            if done.returncode:
                raise SystemExit(f"{what} ended with {done.returncode}: {done.stderr[-2000:]}")

        edgewise("study", "study", "one.toml", "--save", "lab.db")
        edgewise("report", "report", "lab.db", "-o", "report.html")
        edgewise("sections", "report", "lab.db", "-o", "report.json", "--format", "json")
        sections = json.loads((Path(folder) / "report.json").read_text())
        drawn = [each["title"] for each in sections["sections"] if each["rows"]]
        total_s = took["study"] + took["report"]
        details = {
            "model": options.model,
            "study_s": took["study"],
            "report_s": took["report"],
            "report_bytes": (Path(folder) / "report.html").stat().st_size,
            "sections": drawn,
        }
    # One run of one command: there is nothing to take an interval over.
    finish("P7", total_s, (total_s, total_s), BAR_S, total_s <= BAR_S, **details)


if __name__ == "__main__":
    main()
