"""Labelled images from wherever people keep them, and how they become inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgewise.core.errors import InputError
from edgewise.core.preprocess import parse_preprocess
from edgewise.data import built_in, open_dataset
from edgewise.data.preprocess import fit, prepare

RED, BLUE = (255, 0, 0), (0, 0, 255)


def picture(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (8, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    picture(tmp_path / "pets" / "dog" / "1.png", RED)
    picture(tmp_path / "pets" / "cat" / "2.png", BLUE)
    picture(tmp_path / "pets" / "cat" / "deeper" / "3.png", BLUE)
    (tmp_path / "pets" / "cat" / "notes.txt").write_text("not a picture")
    return tmp_path / "pets"


def test_a_folder_per_class(folder: Path) -> None:
    found = open_dataset(str(folder))
    assert found.classes == ("cat", "dog")
    assert found.labels.tolist() == [0, 0, 1]
    assert found.image(2).shape == (6, 8, 3) and found.image(2)[0, 0].tolist() == list(RED)


def test_class_names_in_the_order_of_the_outputs(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "labels.txt"
    names.write_text("dog\nbird\ncat\n")
    assert open_dataset(str(folder), str(names)).labels.tolist() == [2, 2, 0]
    names.write_text("dog\nbird\n")
    with pytest.raises(InputError, match="has the class 'cat', which is not among the 2 known"):
        open_dataset(str(folder), str(names))
    names.write_text("dog\ndog\n")
    with pytest.raises(InputError, match="twice"):
        open_dataset(str(folder), str(names))


def test_a_flat_folder_with_a_list(tmp_path: Path) -> None:
    picture(tmp_path / "flat" / "a.png", RED)
    picture(tmp_path / "flat" / "b.png", BLUE)
    with pytest.raises(InputError, match="nothing says what its pictures show"):
        open_dataset(str(tmp_path / "flat"))
    labels = tmp_path / "labels.txt"
    labels.write_text("b.png 7\na.png 2\n")
    found = open_dataset(str(tmp_path / "flat"), str(labels))
    assert found.labels.tolist() == [7, 2]
    assert found.image(0)[0, 0].tolist() == list(BLUE)
    labels.write_text("c.png 7\n")
    with pytest.raises(InputError, match=r"names c\.png, which is not in"):
        open_dataset(str(tmp_path / "flat"), str(labels))


def test_calibration_needs_no_labels(tmp_path: Path) -> None:
    picture(tmp_path / "flat" / "b.png", BLUE)
    picture(tmp_path / "flat" / "a.png", RED)
    found = open_dataset(str(tmp_path / "flat"), labelled=False)
    assert [found.image(place)[0, 0].tolist() for place in range(2)] == [list(RED), list(BLUE)]
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 4, 4, 3), np.uint8))
    assert len(open_dataset(str(tmp_path / "a.npz"), labelled=False).labels) == 2


@pytest.mark.parametrize("head", ["", "label,path\n"])
def test_a_list_of_files(tmp_path: Path, head: str) -> None:
    picture(tmp_path / "a.png", RED)
    picture(tmp_path / "in" / "b.png", BLUE)
    rows = "dog,a.png\ncat,in/b.png\n" if head else "a.png,dog\nin/b.png,cat\n"
    (tmp_path / "list.csv").write_text(head + rows)
    found = open_dataset(str(tmp_path / "list.csv"))
    assert found.classes == ("cat", "dog")
    assert found.labels.tolist() == [1, 0]
    (tmp_path / "list.csv").write_text("a.png,1\ngone.png,2\n")
    with pytest.raises(InputError, match=r"line 2 of .* names 'gone\.png', which is not there"):
        open_dataset(str(tmp_path / "list.csv"))


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
            "names only 2 classes",
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


def test_what_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no data at"):
        open_dataset(str(tmp_path / "gone"))
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match="expected a folder, or a file that ends in"):
        open_dataset(str(tmp_path / "a.txt"))
    broken = tmp_path / "set" / "cat" / "1.jpg"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"\xff\xd8\xffgarbage")
    with pytest.raises(InputError, match=r"1\.jpg cannot be read as a picture"):
        open_dataset(str(tmp_path / "set")).image(0)


def test_values_are_divided_shifted_and_scaled() -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    how = parse_preprocess("cifar100")
    expected = (image / 255 - np.array(how.mean)) / np.array(how.std)
    np.testing.assert_allclose(prepare([image], how)[0], expected.transpose(2, 0, 1), rtol=1e-5, atol=1e-6)
    flipped = prepare([image], parse_preprocess("raw(order=bgr, layout=nhwc)"))[0]
    np.testing.assert_array_equal(flipped, image[:, :, ::-1])


def test_resizing_and_cutting_is_what_frameworks_do() -> None:
    """The shorter side to 256, the other in proportion, rounded down; then the middle."""
    image = np.zeros((300, 401, 3), np.uint8)
    assert fit(image, parse_preprocess("imagenet(crop=0)")).shape == (256, 342, 3)
    assert fit(image.swapaxes(0, 1), parse_preprocess("imagenet(crop=0)")).shape == (342, 256, 3)
    assert fit(image, parse_preprocess("imagenet")).shape == (224, 224, 3)
    assert fit(image, parse_preprocess("imagenet(crop=96, squash=true)")).shape == (96, 96, 3)
    marked = image.copy()
    marked[150, 200] = 255
    cut = fit(marked, parse_preprocess("unit(crop=101)"))
    assert cut.shape == (101, 101, 3) and cut[50, 50].tolist() == [255] * 3
    with pytest.raises(InputError, match="smaller than the crop of 500"):
        fit(image, parse_preprocess("unit(crop=500)"))
    with pytest.raises(InputError, match="do not make one batch"):
        prepare([image, image[:10]], parse_preprocess("unit"))


@pytest.mark.parametrize(
    ("text", "says"),
    [("pocket(size=3)", "no 'size'"), ("pocket(count=x)", "are numbers"), ("pocket(count=0)", "at least 1")],
)
def test_built_in_data_asked_for_wrongly(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        built_in.parse(text)


def test_a_file_is_not_built_in_data() -> None:
    assert built_in.parse("folder/pocket") is None
    assert built_in.parse("pocket(split=train, count=5)") == built_in.BuiltIn("train", 5, 1.0)
