"""Images kept as arrays in an .npz, which is read before it is believed."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edgewise.core.errors import InputError
from edgewise.data import arrays as npz
from edgewise.data import open_dataset


def test_arrays(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.array([2, 0, 1]), classes=np.array(["x", "y", "z"]))
    found = open_dataset(str(tmp_path / "a.npz"))
    assert found.classes == ("x", "y", "z")
    np.testing.assert_array_equal(found.image(1), images[1])
    np.savez(tmp_path / "b.npz", images=images, labels=np.array([2, 0, 0]), classes=np.array(["x", "y", "z"]))
    assert open_dataset(str(tmp_path / "b.npz")).digest != found.digest


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"labels": np.zeros(2, int)}, "lacks 'images'"),
        ({"images": np.zeros((2, 4, 4, 3), np.uint8)}, "lacks 'labels'"),
        ({"images": np.zeros((2, 4, 4, 3), np.float32), "labels": np.zeros(2, int)}, "expected uint8"),
        ({"images": np.zeros((3, 4, 4, 3), np.uint8), "labels": np.zeros(2, int)}, "3 images and 2 labels"),
        ({"images": np.zeros((2, 4, 4, 3), np.uint8), "labels": np.zeros(2)}, "class numbers"),
        ({"images": np.zeros((2, 4, 4, 3), np.uint8), "labels": np.array([0, -1])}, "class numbers"),
        (
            {"images": np.zeros((2, 4, 4, 3), np.uint8), "labels": np.array([0, 5]), "classes": np.array(["a", "b"])},
            "class number 5, and only 0 to 1 have a name",
        ),
    ],
)
def test_arrays_that_are_not_labelled_images(tmp_path: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=says):
        open_dataset(str(tmp_path / "a.npz")).image(0)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.array([{"a": 1}], object), labels=np.zeros(1, int))
    with pytest.raises(InputError, match="cannot be read as arrays"):
        open_dataset(str(tmp_path / "a.npz")).image(0)


def stored(path: Path, **members: bytes) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return str(path)


def npy_bytes(array: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.lib.format.write_array(data, array)
    return data.getvalue()


def npy_claiming(header: str) -> bytes:
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (npy_claiming("{'descr': '|u1', 'fortran_order': False, 'shape': (1 << 30, 512, 512, 3), }"), ""),
        (npy_claiming("{'descr': '|u1', 'fortran_order': False, 'shape': (1073741824, 512, 512, 3), }"), "claims"),
        (npy_claiming("{'descr': '|u1', 'fortran_order': False, 'shape': (-2, -2, 1, 3), }"), "claims"),
        (npy_claiming("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }"), "claims"),
        (npy_claiming("((("), ""),
        (b"\x93NUMPY\x03\x00" + npy_claiming("{}")[8:], "version"),
        (b"no array", ""),
        (b"", ""),
    ],
)
def test_arrays_are_not_believed(tmp_path: Path, images: bytes, says: str) -> None:
    path = stored(tmp_path / "a.npz", images=images, labels=npy_bytes(np.zeros(2, int)))
    with pytest.raises(InputError, match=rf"a\.npz cannot be read as arrays: .*{says}"):
        open_dataset(path)
    path = stored(tmp_path / "b.npz", images=npy_bytes(np.zeros((2, 4, 4, 3), np.uint8)), labels=images)
    with pytest.raises(InputError, match=r"b\.npz cannot be read as arrays"):
        open_dataset(path)


def test_a_corrupt_block_of_arrays(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 9, (4, 32, 32, 3), dtype=np.uint8)
    np.savez_compressed(tmp_path / "a.npz", images=images, labels=np.zeros(4, int))
    for fill in (b"\xff", b"\0"):
        data = bytearray((tmp_path / "a.npz").read_bytes())
        data[1500:1600] = fill * 100
        (tmp_path / "b.npz").write_bytes(data)
        with pytest.raises(InputError, match="cannot be read as arrays"):
            open_dataset(str(tmp_path / "b.npz")).image(0)


def test_arrays_larger_than_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(100, np.uint8))
    with pytest.raises(InputError, match=r"x\.npy has 100 bytes, and 99 are the most"):
        npz.member(tmp_path / "a.npz", "x", largest_bytes=99)

    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np.lib.format, "read_array", full)
    with pytest.raises(InputError, match="does not fit into memory"):
        npz.member(tmp_path / "a.npz", "x")


def test_arrays_are_read_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(6).reshape(2, 3), y=np.asfortranarray(np.ones((2, 3), ">f4")))
    assert npz.names(tmp_path / "a.npz") == ("x", "y")
    assert npz.header(tmp_path / "a.npz", "y") == ((2, 3), np.dtype(">f4"))
    np.testing.assert_array_equal(npz.member(tmp_path / "a.npz", "x"), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(npz.member(tmp_path / "a.npz", "y"), np.ones((2, 3)))
    with pytest.raises(InputError, match="has x, y, and lacks 'z'") as found:
        npz.member(tmp_path / "a.npz", "z", "numpy.savez(path, z=array)")
    assert found.value.hint == "numpy.savez(path, z=array)"
    np.save(tmp_path / "b.npy", np.zeros(3))
    with pytest.raises(InputError, match="not a zip file"):
        npz.names(tmp_path / "b.npy")


def test_labels_in_a_column(tmp_path: Path) -> None:
    images = np.zeros((2, 4, 4, 3), np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.array([[3], [1]]))
    assert open_dataset(str(tmp_path / "a.npz")).labels.tolist() == [3, 1]
    for wrong in (np.zeros((2, 2), int), np.zeros((), int), np.zeros(0, int), np.array([0, 2**63], np.uint64)):
        np.savez(tmp_path / "a.npz", images=images, labels=wrong)
        with pytest.raises(InputError, match="must be class numbers"):
            open_dataset(str(tmp_path / "a.npz"))
