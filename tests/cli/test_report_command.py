"""`edgewise report` as a user calls it: each format, and nothing half-written when it cannot."""

from __future__ import annotations

import csv
import json
import os
import select
import stat
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from edgewise.cli import _main
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import Agreement, Cluster, Failure, Machine, Model, Ran, Round, Start, Task
from edgewise.store.db import Store

TARGETS = ("null:cpu@1", "null:npu@1")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two targets measured, one that failed."""
    path = tmp_path_factory.mktemp("store") / "lab.db"
    with Store(path) as opened:
        opened.save_machine(Machine("m", "a machine", "Linux", "a CPU", (), (Cluster("cpu", (0, 1)),)))
        opened.save_model(Model("d", "net.onnx", (), (), label="net"))
        for number, target in enumerate(TARGETS):
            task = Task("d", parse_placement(target), parse_scenario("single"))
            result = opened.begin(task, "m", (("null", "1"),), "", "net")
            opened.add(result, Start(0, 10**6, 10**6, 1 << 20, Ran(), Agreement(0, 1, 0, 1, 0, 9), 1 << 21, (0,), 2))
            for place in range(4):
                samples = tuple(10**6 * (number + 1) + 997 * ((i * 7 + place) % 31) for i in range(50))
                opened.add(result, Round(0, False, place * 10**9, sum(samples), samples, cpu_ns=sum(samples)))
            opened.finish(result)
        task = Task("d", parse_placement("null:gpu"), parse_scenario("single"))
        failure = Failure(task, "m", "load", "Unsupported", "there is no gpu", "edgewise devices", label="net")
        opened.finish(opened.begin(task, "m", (("null", "1"),), "", "net"), failure)
    return path


def test_a_page_is_one_file(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.html"
    assert _main(["report", str(store), "-o", str(out), "--title", "My <title>"]) == 0
    said = capsys.readouterr()
    assert f"Wrote {out}" in said.out and said.err == ""
    text = out.read_text()
    assert "<h1>My &lt;title&gt;</h1>" in text
    assert all(target in text for target in TARGETS) and "there is no gpu" in text
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_pipe_is_written_to_and_not_replaced(store: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    thread = threading.Thread(target=_main, args=(["report", str(store), "-o", str(pipe), "--format", "json"],))
    thread.start()
    text = b""
    while thread.is_alive() or select.select([reader], [], [], 0)[0]:
        if select.select([reader], [], [], 0.05)[0]:
            text += os.read(reader, 1 << 16)
    os.close(reader)
    assert json.loads(text)["title"] == "net on a machine"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_terminal_says_what_stands_on_top(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["report", str(store), "-o", str(tmp_path / "r.html")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("•", "!"))]
    assert 0 < len(lines) <= 6


def test_markdown_and_json_go_to_stdout(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["report", str(store), "--format", "md"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# net on a machine\n")
    assert "## Did not run" in text and "## Not in this report" in text and "| --- |" in text
    assert _main(["report", str(store), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert _main(["report", str(store), "--format", "json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert first["sections"] == second["sections"]
    assert {"recommend", "summary", "ranking"} <= {section["analysis"] for section in first["sections"]}
    assert all(told["sentence"] for section in first["sections"] for told in section["findings"])
    assert [failure["message"] for failure in first["failures"]] == ["there is no gpu"]


def test_json_and_a_file_at_once(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["report", str(store), "-o", str(tmp_path / "r.md"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "net on a machine"
    assert (tmp_path / "r.md").read_text().startswith("# net")


def test_tables_and_charts_as_folders(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("csv", "svg"):
        for _ in range(2):  # the second replaces the first
            assert _main(["report", str(store), "-o", str(tmp_path / kind), "--format", kind]) == 0
    for path in (tmp_path / "csv").iterdir():
        rows = list(csv.reader(path.read_text().splitlines()))
        assert len({len(row) for row in rows}) == 1 and len(rows) > 1
    drawings = list((tmp_path / "svg").iterdir())
    assert drawings
    for path in drawings:
        ET.parse(path)
    summary = next(path for path in (tmp_path / "csv").iterdir() if path.name.endswith("summary.csv"))
    assert {row["target"] for row in csv.DictReader(summary.read_text().splitlines())} == set(TARGETS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csv", "svg"]
    assert "files in" in capsys.readouterr().out


def test_what_is_not_ours_is_not_replaced(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    assert _main(["report", str(store), "-o", str(tmp_path / "mine"), "--format", "csv"]) == 2
    assert "thesis.txt" in capsys.readouterr().err
    (tmp_path / "file").write_text("x")
    assert _main(["report", str(store), "-o", str(tmp_path / "file"), "--format", "svg"]) == 2
    assert (tmp_path / "file").read_text() == "x"
    assert _main(["report", str(store), "-o", str(tmp_path / "mine"), "--format", "html"]) == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["none.db", "-o", "r.html"], 7, "there is no store"),
        (["empty.db", "-o", "r.html"], 7, "nothing to report"),
        (["text.db", "-o", "r.html"], 7, "not a database"),
        (["STORE", "-o", "r.pdf"], 2, ".html"),
        (["STORE", "-o", "r.html", "--format", "pdf"], 2, "unknown format"),
        (["STORE", "-o", "no/such/folder/r.html"], 2, "cannot be written"),
        (["STORE", "none.db", "-o", "r.html"], 7, "there is no store"),
    ],
)
def test_bad_input_writes_nothing(
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store("empty.db"):
        pass
    Path("text.db").write_text("this is not a database at all")
    before = sorted(path.name for path in tmp_path.iterdir() if "empty.db-" not in path.name)
    assert _main(["report", *(str(store) if a == "STORE" else a for a in arguments)]) == code
    said = capsys.readouterr()
    assert words in said.err and "hint: " in said.err and "Traceback" not in said.err
    assert sorted(path.name for path in tmp_path.iterdir() if "empty.db-" not in path.name) == before
