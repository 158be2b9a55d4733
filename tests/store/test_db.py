"""The store gives back what it was given, refuses what is not its own, and survives full disks and company."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.errors import StoreError
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import (
    Agreement,
    Cluster,
    Failure,
    Machine,
    Measurement,
    Model,
    Ran,
    Round,
    Start,
    Task,
    Tensor,
)
from edgewise.store.db import Store
from edgewise.store.migrations import APPLICATION_ID, MIGRATIONS

MACHINE = Machine("m1", "a machine", "Linux", "a cpu", ("avx2",), (Cluster("all", (0, 1)),))
TASK = Task("f00d", parse_placement("null:cpu:fp32@2{latency=1ms}"), parse_scenario("server(rate_hz=12.5, n=2)"))
VERSIONS = (("null", "1"),)
RAN = Ran(("cpu", "gpu"), (("fp32", 3), ("int8", 9)), ("a note",))
START = Start(17, 2_000_000, 3_000_000, 1 << 30, RAN, Agreement(1e-7, 2.5, 1e-9, 1.0, 0, 10))
BARE = Start(18, 1, 2, None, Ran())
ROUND = Round(0, True, 1_700_000_000_000_000_000, 10**8, (1, 2, 3), 4, 5, 6, 7, -8, 9, 10, 11)
BIG = Round(1, False, 19, 10**9, tuple(range(10**12, 10**12 + 100_000)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lab.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as opened:
        opened.save_machine(MACHINE)
        yield opened


def _begin(store: Store, task: Task = TASK) -> int:
    return store.begin(task, MACHINE.id, VERSIONS, "cafe", "tiny")


def _read(path: Path, number: int) -> Measurement | Failure:
    with Store(path, create=False) as other:
        return next(record for found, _, _, record in other.results() if found == number)


def _whole(path: Path) -> bool:
    with sqlite3.connect(path) as connection:
        answer = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    return bool(answer == "ok")


def test_a_measurement_comes_back_as_it_was(store: Store, path: Path) -> None:
    number = _begin(store)
    for part in (START, BARE, ROUND, BIG):
        store.add(number, part)
    store.finish(number)
    expected = Measurement(TASK, MACHINE.id, VERSIONS, "cafe", (START, BARE), (ROUND, BIG), True, "tiny")
    assert _read(path, number) == expected
    assert store.find(TASK, MACHINE.id, VERSIONS, "cafe") == (number, "complete", expected)
    assert len(expected.samples_ns) == 100_000  # the warm-up round does not count


def test_a_failure_comes_back_as_it_was(store: Store, path: Path) -> None:
    number = _begin(store)
    failure = Failure(TASK, MACHINE.id, "run", "WorkerCrashed", "died", "try again", "last\nwörds \x1b", "tiny")
    store.finish(number, failure)
    assert _read(path, number) == failure


def test_a_failure_without_hint_and_words(store: Store, path: Path) -> None:
    number = _begin(store)
    failure = Failure(TASK, MACHINE.id, "load", "Unsupported", "no", label="tiny")
    store.finish(number, failure)
    assert _read(path, number) == failure


def test_machines_and_models_may_be_saved_again(store: Store) -> None:
    _begin(store)
    model = Model("f00d", "/m.onnx", (Tensor("x", "float32", ("n", 3, None)),), (Tensor("y", "float32", None),))
    for _ in range(2):
        store.save_machine(MACHINE)
        store.save_model(model)
    assert store.machines() == {MACHINE.id: MACHINE}
    assert len(list(store.results())) == 1


def test_each_part_is_there_for_others_the_moment_it_is_added(store: Store, path: Path) -> None:
    number = _begin(store)
    for count in range(1, 4):
        store.add(number, ROUND)
        seen = _read(path, number)
        assert isinstance(seen, Measurement)
        assert seen.rounds == (ROUND,) * count
        assert not seen.complete


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            Round,
            st.integers(0, 9),
            st.booleans(),
            *[st.integers(0, 2**63 - 1)] * 2,
            st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20).map(tuple),
            *[st.none() | st.integers(-(2**63), 2**63 - 1)] * 8,
        ),
        max_size=4,
    )
)
def test_any_rounds_come_back(rounds: list[Round]) -> None:
    with Store(":memory:") as store:
        store.save_machine(MACHINE)
        number = _begin(store)
        for part in rounds:
            store.add(number, part)
        found = store.find(TASK, MACHINE.id, VERSIONS, "cafe")
        assert found is not None
        assert isinstance(found[2], Measurement)
        assert found[2].rounds == tuple(rounds)


def test_find_wants_all_four_to_be_the_same(store: Store) -> None:
    number = _begin(store)
    other = Task(TASK.subject, TASK.placement, TASK.scenario.with_batch(2))
    assert store.find(TASK, MACHINE.id, VERSIONS, "cafe") is not None
    assert store.find(other, MACHINE.id, VERSIONS, "cafe") is None
    assert store.find(TASK, "m2", VERSIONS, "cafe") is None
    assert store.find(TASK, MACHINE.id, (("null", "2"),), "cafe") is None
    assert store.find(TASK, MACHINE.id, VERSIONS, "beef") is None
    newer = _begin(store)
    found = store.find(TASK, MACHINE.id, VERSIONS, "cafe")
    assert found is not None
    assert found[0] == newer > number


_BEGIN = """
import sys, time
sys.path[:0] = [{folder!r}]
from test_db import MACHINE, _begin
from edgewise.store.db import Store
store = Store({path!r})
print(_begin(store), flush=True)
time.sleep(60)
"""


def test_only_what_a_dead_process_left_can_be_claimed(store: Store, path: Path) -> None:
    own = _begin(store)
    assert not store.claim(own)  # we are alive
    code = _BEGIN.format(folder=str(Path(__file__).parent), path=str(path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        assert not store.claim(theirs)
        other.kill()
        other.wait()
        assert store.claim(theirs)
    assert not store.claim(theirs)  # it is ours now
    store.finish(own)
    assert not store.claim(own)  # nothing is left to do


def test_another_process_of_the_same_number_is_not_the_owner(store: Store) -> None:
    number = _begin(store)
    store.connection.execute("UPDATE results SET owner = ?", (f"{os.getpid()}:1.00",))
    assert store.claim(number)


def test_a_new_store_knows_its_version(store: Store, path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    connection.close()


def test_opening_again_keeps_everything(path: Path) -> None:
    with Store(path) as store:
        store.save_machine(MACHINE)
        number = _begin(store)
        store.add(number, ROUND)
    with Store(path) as again:
        assert [found for found, *_ in again.results()] == [number]


def _refused(path: Path | str, *words: str) -> None:
    with pytest.raises(StoreError) as caught:
        Store(path)
    assert caught.value.exit_code == 7
    assert caught.value.hint
    for word in (str(path), *words):
        assert word in caught.value.message


def test_a_newer_schema_is_refused(path: Path) -> None:
    with Store(path):
        pass
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    _refused(path, "newer edgewise")
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_and_untouched(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()
    before = path.read_bytes()
    _refused(path, "not an edgewise store")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"these are my notes\n" * 100, b"x", os.urandom(5000)])
def test_a_file_that_is_no_database_is_refused_and_untouched(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _refused(path, "not a database")
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with Store(path) as store:
        assert not list(store.results())


def test_places_where_no_store_can_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    for place in (
        file / "below" / "lab.db",
        tmp_path,
        "/proc/lab.db",
        "/proc/self/below/lab.db",
        tmp_path / ("x" * 300),
    ):
        _refused(place)
    assert file.read_text() == "text"


def test_no_store_to_read(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store") as caught:
        Store(path, create=False)
    assert "--save" in str(caught.value.hint)
    assert not path.exists()


def test_a_full_disk_costs_only_what_did_not_fit(store: Store, path: Path) -> None:
    number = _begin(store)
    store.add(number, START)
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages + 20}")
    saved = 0
    part = Round(0, False, 1, 2, tuple(range(1000)))
    with pytest.raises(StoreError, match="full") as caught:
        for _ in range(1000):
            store.add(number, part)
            saved += 1
    assert caught.value.exit_code == 7
    assert "--resume" in str(caught.value.hint)
    assert saved > 0
    assert _whole(path)
    found = _read(path, number)
    assert isinstance(found, Measurement)
    assert found.rounds == (part,) * saved
    # Space again: the same connection goes on.
    store.connection.execute("PRAGMA max_page_count = 1000000")
    store.add(number, part)
    found = _read(path, number)
    assert isinstance(found, Measurement)
    assert len(found.rounds) == saved + 1


_WRITE = """
import sys
sys.path[:0] = [{folder!r}]
from test_db import MACHINE, _begin
from edgewise.core.types import Round
from edgewise.store.db import Store
me = int(sys.argv[1])
sys.stdin.readline()
with Store({path!r}) as store:
    store.save_machine(MACHINE)
    number = _begin(store)
    for i in range({rounds}):
        store.add(number, Round(me, False, i, 1, tuple(range(i))))
    store.finish(number)
"""
ROUNDS = 200


@pytest.mark.parametrize("writers", [2, 4])
def test_processes_writing_at_once_lose_nothing(path: Path, writers: int) -> None:
    code = _WRITE.format(folder=str(Path(__file__).parent), path=str(path), rounds=ROUNDS)
    command = [sys.executable, "-c", code]
    processes = [
        subprocess.Popen([*command, str(i)], stdin=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(writers)
    ]
    for process in processes:  # they even create the store at the same time
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    assert _whole(path)
    with Store(path, create=False) as store:
        results = list(store.results())
    assert [status for _, _, status, _ in results] == ["complete"] * writers
    written = {}
    for _, _, _, record in results:
        assert isinstance(record, Measurement)
        written[record.rounds[0].start] = record.rounds
    assert written == {
        me: tuple(Round(me, False, i, 1, tuple(range(i))) for i in range(ROUNDS)) for me in range(writers)
    }


def test_a_reader_is_not_kept_waiting_by_a_writer(store: Store, path: Path) -> None:
    _begin(store)
    store.connection.execute("BEGIN IMMEDIATE")
    begin = time.monotonic()
    with Store(path, create=False) as reader:
        assert len(list(reader.results())) == 1
    assert time.monotonic() - begin < 5
    store.connection.execute("ROLLBACK")
