"""What every test has: its own cache and data folders, a small network on disk, and answers of workers that another
test has had before.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from edgewise import zoo
from edgewise.measure import isolate

# What is drawn is looked at, not how long it takes: machines that tests run on stand still for a second now and then.
settings.register_profile("edgewise", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgewise")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads or writes the user's own store and cache, nor leaves its own behind: gigabytes, together."""
    home = tmp_path_factory.mktemp("home")
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(home / variable))
    yield
    shutil.rmtree(home, ignore_errors=True)


class _Asked:
    """`isolate.call`, whose answers are remembered where they cannot change: what an engine is in the same environment,
    what a file is as long as it is the same, and files that are named after what is in them. The first time it is a
    worker that answers, as for everybody; refusals are asked for again."""

    def __init__(self, made: Path) -> None:
        self._call = isolate.call
        self._made = made
        self._answers: dict[tuple[object, ...], Any] = {}

    def __call__(self, function: str, **arguments: Any) -> Any:
        if function in ("edgewise.data.built_in:save", "edgewise.data.inputs:save"):
            return self._file(Path(arguments["path"]).name, function, arguments)
        if function == "edgewise.zoo:export":
            given = (
                f"{key}-{arguments[key]}" for key in ("name", "batch", "size", "classes", "seed") if key in arguments
            )
            return self._file("-".join((*given, "zoo.onnx")), function, arguments)
        key = self._key(function, arguments)
        if key is None:
            return self._call(function, **arguments)
        if key not in self._answers:
            self._answers[key] = self._call(function, **arguments)
        return copy.deepcopy(self._answers[key])

    def _key(self, function: str, arguments: dict[str, Any]) -> tuple[object, ...] | None:
        if function == "edgewise.engines:describe":
            own = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "PYTEST_CURRENT_TEST")
            return (function, arguments["name"], *sorted(pair for pair in os.environ.items() if pair[0] not in own))
        if function == "edgewise.model.load:inspect" and os.path.isfile(arguments["path"]):
            found = os.stat(arguments["path"])
            return (function, arguments["path"], found.st_ino, found.st_size, found.st_mtime_ns)
        return None

    def _file(self, name: str, function: str, arguments: dict[str, Any]) -> Any:
        path, known = arguments["path"], self._made / name
        if known.exists():
            part = f"{path}.part"
            shutil.copyfile(known, part)
            os.replace(part, path)
            return path
        answer = self._call(function, **arguments)
        # Tests run side by side: whole, or not there.
        part = str(known.with_name(f"{name}.{os.getpid()}.part"))
        shutil.copyfile(path, part)
        os.replace(part, known)
        return answer


@pytest.fixture(scope="session")
def _asked(tmp_path_factory: pytest.TempPathFactory) -> _Asked:
    base = tmp_path_factory.getbasetemp()
    made = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made"
    made.mkdir(exist_ok=True)
    return _Asked(made)


@pytest.fixture(autouse=True)
def _asked_once(_asked: _Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "call", _asked)


@pytest.fixture(scope="session")
def tiny_onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in network `tiny`, exported once."""
    return Path(zoo.export("tiny", str(tmp_path_factory.mktemp("models") / "tiny.onnx")))


# The longest files: begun first, so that no core waits for one of them at the end.
_LONGEST = (
    *("test_kill.py", "test_optimize_command.py", "test_accuracy.py", "test_conformance_cases.py", "test_bad_input.py"),
    *("test_placements.py", "test_commands.py", "test_tune_and_run.py", "test_engines.py", "test_stages.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
