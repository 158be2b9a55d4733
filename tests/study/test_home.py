"""The cache is the user's disk: it stays under its limit, and what is in use stays in it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from edgewise.core.errors import InputError
from edgewise.study import home

MB = 1_000_000
HOURS_AGO = 3 * 3600


def _kept(name: str, size: int, age_s: float) -> Path:
    path = home.cache() / name
    path.write_bytes(bytes(size))
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_what_was_not_used_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_CACHE_GB", "0.0025")
    folder = home.cache() / "converted-mnn"
    folder.mkdir()
    (folder / "model.mnn").write_bytes(bytes(MB))
    os.utime(folder, (time.time() - 2 * HOURS_AGO,) * 2)
    older = _kept("older.onnx", MB, HOURS_AGO + 60)
    newer = _kept("newer.onnx", MB, HOURS_AGO)
    fresh = _kept("fresh.onnx", MB, 0)

    home.trim()

    assert not folder.exists()
    assert not older.exists()
    assert newer.exists()
    assert fresh.exists()


def test_using_an_entry_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_CACHE_GB", "0")
    path = home.used(_kept("model.onnx", MB, HOURS_AGO))

    home.trim()

    assert path.exists()


def test_nothing_goes_while_there_is_room() -> None:
    path = _kept("model.onnx", MB, 100 * HOURS_AGO)

    home.trim()

    assert path.exists()


@pytest.mark.parametrize("text", ["lots", "-1", "nan"])
def test_a_limit_that_is_no_number_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_CACHE_GB", text)

    with pytest.raises(InputError, match=f"EDGEWISE_CACHE_GB is {text}"):
        home.trim()
