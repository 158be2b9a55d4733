"""The hostile corpus is large, the same each time, and its controls are what they claim."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from hostile import corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def files(folder: Path) -> list[tuple[str, Path]]:
    return corpus(folder)


def _content(path: Path) -> bytes | str:
    """Bytes of a real file; of what only looks like one (a pipe would hang), what it is."""
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return path.read_bytes() if path.is_file() else f"mode {path.lstat().st_mode}" if path.exists() else "absent"


def test_many_small_and_quick(tmp_path: Path) -> None:
    begin = time.monotonic()
    files = corpus(tmp_path)
    assert time.monotonic() - begin < 10
    assert len(files) >= 320
    assert sum(path.lstat().st_size for path in tmp_path.rglob("*")) < 200e6


def test_names_and_contents_are_unique(files: list[tuple[str, Path]]) -> None:
    assert len({name for name, _ in files}) == len(files)
    assert len({path for _, path in files}) == len(files)
    contents = [_content(path) for _, path in files]
    assert len(set(contents)) == len(contents)


def test_the_same_each_time(files: list[tuple[str, Path]], folder: Path, tmp_path: Path) -> None:
    again = corpus(tmp_path)
    assert [name for name, _ in again] == [name for name, _ in files]
    assert [path.relative_to(tmp_path) for _, path in again] == [path.relative_to(folder) for _, path in files]
    assert [_content(path) for _, path in again] == [_content(path) for _, path in files]


def test_writing_twice_to_one_folder(files: list[tuple[str, Path]], folder: Path) -> None:
    assert corpus(folder) == files


def test_another_seed_damages_elsewhere(files: list[tuple[str, Path]], tmp_path: Path) -> None:
    other = dict(corpus(tmp_path, seed=1))
    mutated = [(name, path) for name, path in files if name.startswith("mutated_")]
    assert all(path.read_bytes() != other[name].read_bytes() for name, path in mutated)


def test_damaged_files_are_damaged(files: list[tuple[str, Path]]) -> None:
    controls = {path.read_bytes() for name, path in files if name.startswith("control_")}
    for name, path in files:
        if path.is_file() and not path.is_symlink() and not name.startswith("control_"):
            assert path.read_bytes() not in controls, name


def test_controls_are_valid_and_run(files: list[tuple[str, Path]]) -> None:
    controls = [path for name, path in files if name.startswith("control_")]
    assert len(controls) >= 3
    for path in controls:
        onnx.checker.check_model(str(path), full_check=True)
        session = onnxruntime.InferenceSession(str(path))
        only = session.get_inputs()[0]
        shape = [size if isinstance(size, int) else 2 for size in only.shape]
        (answer,) = session.run(None, {only.name: np.ones(shape, np.float32)})
        assert np.isfinite(answer).all()
