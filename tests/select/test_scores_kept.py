"""Answers on disk: what two commands wrote at the same time, or half of a file, is never taken for something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgewise.study import scores


def part(folder: Path, first: int, count: int, claims: int | None = None) -> Path:
    """Of images `first` and on: the row of an image is its number."""
    path = folder / f"{first:09d}-{count if claims is None else claims}.npz"
    rows = np.arange(first, first + count, dtype=np.float32)[:, None] * np.ones(3, np.float32)
    np.savez(path, rows=rows, reasons=np.array([""] * count, np.str_))
    return path


def images(folder: Path, count: int) -> list[float]:
    return [float(row[0]) for part in scores._kept(folder, count) for row in part.rows]


def test_parts_of_two_commands_are_not_mixed_up(tmp_path: Path) -> None:
    for first, count in ((0, 1), (1, 4), (5, 9), (1, 2), (3, 8), (11, 9)):
        part(tmp_path, first, count)
    # The longest first: 0, 1 to 4, 5 to 13; nothing begins at 14.
    assert images(tmp_path, 20) == list(range(14))
    part(tmp_path, 14, 6)
    assert images(tmp_path, 20) == list(range(20))
    assert images(tmp_path, 18) == list(range(14)), "what is longer than there are images is of something else"


@pytest.mark.parametrize("length", [0, 3, 40, 200])
def test_a_broken_part_is_asked_about_again(tmp_path: Path, length: int) -> None:
    part(tmp_path, 0, 4)
    path = part(tmp_path, 4, 4)
    path.write_bytes(path.read_bytes()[:length])
    assert images(tmp_path, 8) == [0, 1, 2, 3]


def test_bytes_that_changed_are_noticed(tmp_path: Path) -> None:
    path = part(tmp_path, 0, 200)
    held = bytearray(path.read_bytes())
    held[500] ^= 0xFF
    path.write_bytes(held)
    assert images(tmp_path, 200) == []


def test_a_part_has_as_many_images_as_its_name_says(tmp_path: Path) -> None:
    part(tmp_path, 0, 3, claims=4)
    part(tmp_path, 0, 2)
    assert images(tmp_path, 8) == [0, 1]
