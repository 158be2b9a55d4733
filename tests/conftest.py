"""What every test has: its own cache and data folders, and a small network on disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise import zoo


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads or writes the user's own store and cache, nor leaves its own behind: gigabytes, together."""
    home = tmp_path_factory.mktemp("home")
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(home / variable))
    yield
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def tiny_onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in network `tiny`, exported once."""
    return Path(zoo.export("tiny", str(tmp_path_factory.mktemp("models") / "tiny.onnx")))


# Files with the longest single tests: begun first, so that no core waits for them at the end.
_LONGEST = ("test_accuracy.py", "test_hostile.py", "test_engines.py", "test_torch.py", "test_kill.py", "test_pocket.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
