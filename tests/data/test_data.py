"""Labelled images from wherever people keep them, and how they become inputs."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgewise.core.errors import InputError
from edgewise.core.preprocess import parse_preprocess
from edgewise.data import built_in, open_dataset
from edgewise.data.dataset import digest
from edgewise.data.files import decode
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
    assert found.digest == open_dataset(str(folder)).digest
    assert found.image(2).shape == (6, 8, 3) and found.image(2)[0, 0].tolist() == list(RED)


def test_class_names_in_the_order_of_the_outputs(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "labels.txt"
    names.write_text("dog\nbird\ncat\n")
    assert open_dataset(str(folder), str(names)).labels.tolist() == [2, 2, 0]
    names.write_text("dog\nbird\n")
    with pytest.raises(InputError, match="has the class 'cat', which is not among the 2 known"):
        open_dataset(str(folder), str(names))
    names.write_text("dog\ncat\ndog\n")
    with pytest.raises(InputError, match="has the class 'dog', and 'dog' is named twice"):
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
    with pytest.raises(InputError, match=r"line 1 of .* names 'c\.png', which is not in"):
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
    with pytest.raises(InputError, match=r"line 2 of .* names 'gone\.png', which is not in"):
        open_dataset(str(tmp_path / "list.csv"))


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
    [
        ("pocket(size=3)", "no 'size'"),
        ("pocket(count=x)", "are numbers"),
        ("pocket(count=0)", "at least 1"),
        ("pocket(count=100001)", "at most 100000"),
    ],
)
def test_built_in_data_asked_for_wrongly(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        built_in.parse(text)


def test_a_file_is_not_built_in_data() -> None:
    assert built_in.parse("folder/pocket") is None
    assert built_in.parse("pocket(split=train, count=5)") == built_in.BuiltIn("train", 5, 1.0)


def test_a_changed_picture_makes_another_digest(tmp_path: Path) -> None:
    """A BMP is as large whatever it shows, so that its size says nothing."""
    first, second = tmp_path / "set" / "cat" / "a.bmp", tmp_path / "set" / "dog" / "b.bmp"
    picture(first, RED)
    picture(second, RED)
    before, time = open_dataset(str(tmp_path / "set")).digest, second.stat().st_mtime_ns
    picture(second, BLUE)
    os.utime(second, ns=(time, time))
    shown = open_dataset(str(tmp_path / "set")).digest
    assert shown != before
    os.utime(second, ns=(time + 1, time + 1))
    assert open_dataset(str(tmp_path / "set")).digest != shown


def test_a_picture_under_another_folder_makes_another_digest(tmp_path: Path) -> None:
    for name in ("a.png", "x/b.png", "y/b.png"):
        picture(tmp_path / name, RED)
        os.utime(tmp_path / name, ns=(0, 0))
    digests = set()
    for other in ("x/b.png", "y/b.png"):
        (tmp_path / "list.csv").write_text(f"x/b.png,1\n{other},2\n")
        digests.add(open_dataset(str(tmp_path / "list.csv")).digest)
    (tmp_path / "list.csv").write_text("x/b.png,1\nx/b.png,3\n")
    digests.add(open_dataset(str(tmp_path / "list.csv")).digest)
    assert len(digests) == 3


def test_a_picture_that_went_away_is_said(folder: Path) -> None:
    found = open_dataset(str(folder))
    (folder / "dog" / "1.png").unlink()
    with pytest.raises(InputError, match=r"1\.png cannot be read: No such file"):
        _ = found.digest


def test_arrays_of_other_shapes_and_types_have_other_digests() -> None:
    zeros = np.zeros(8, np.uint8)
    same_bytes = [zeros, zeros.reshape(2, 4), zeros.reshape(4, 2), zeros.view(np.int8), zeros.view(np.int64)]
    assert len({digest(array) for array in same_bytes}) == 5
    assert digest("a", "b") != digest("ab") != digest("a'b")
    assert digest(zeros[:4], zeros[4:]) != digest(zeros[:2], zeros[2:])


def png_of_16_bits(value: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + struct.pack(">H", value) * 3) * 2
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 16, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (257, 1), (30000, 117), (65535, 255)])
def test_sixteen_bits_of_grey_are_scaled(tmp_path: Path, value: int, expected: int) -> None:
    (tmp_path / "a.png").write_bytes(png_of_16_bits(value))
    (tmp_path / "a.ppm").write_bytes(b"P5 3 2 65535\n" + struct.pack(">H", value) * 6)
    Image.fromarray(np.full((2, 3), value, np.uint16)).save(tmp_path / "a.tif")
    for name in ("a.png", "a.ppm", "a.tif"):
        np.testing.assert_array_equal(decode(tmp_path / name), np.full((2, 3, 3), expected, np.uint8))


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_values_without_a_white_are_refused(tmp_path: Path, kind: type) -> None:
    Image.fromarray(np.full((2, 3), 0.5, np.float32).astype(kind)).save(tmp_path / "a.tif")
    with pytest.raises(InputError, match="neither of 8 nor of 16 bits") as found:
        decode(tmp_path / "a.tif")
    assert found.value.hint == "convert it to 8 bits"


def test_opacity_is_dropped_and_what_moves_stands_still(tmp_path: Path) -> None:
    Image.new("RGBA", (2, 2), (*RED, 0)).save(tmp_path / "clear.png")
    palette = Image.new("P", (2, 2))
    palette.putpalette([*RED] * 256)
    palette.save(tmp_path / "palette.png", transparency=bytes([0, 128] * 128))
    Image.new("RGB", (2, 2), RED).save(
        tmp_path / "moves.gif", save_all=True, append_images=[Image.new("RGB", (2, 2), BLUE)]
    )
    Image.new("CMYK", (2, 2), (0, 255, 255, 0)).save(tmp_path / "print.tif")
    for name in ("clear.png", "palette.png", "moves.gif", "print.tif"):
        assert decode(tmp_path / name)[0, 0].tolist() == list(RED), name


def test_a_name_does_not_make_a_picture_of_another_format(tmp_path: Path) -> None:
    """Pillow goes by what is inside, and would hand PostScript to an interpreter."""
    for form in ("EPS", "TGA"):
        Image.new("RGB", (2, 2), RED).save(tmp_path / "a.png", form)
        with pytest.raises(InputError, match="cannot be read as a picture: cannot identify"):
            decode(tmp_path / "a.png")


def test_names_and_cells_that_are_too_long(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the data x*… cannot be opened: File name too long") as found:
        open_dataset("x" * 5000)
    assert "--data" in str(found.value.hint)
    (tmp_path / "list.csv").write_text("x" * 5000 + ",7\n")
    with pytest.raises(InputError, match=r"line 1 of .* names 'x*…', which cannot be opened: File name too long"):
        open_dataset(str(tmp_path / "list.csv"))
    (tmp_path / "list.csv").write_text("a.png,7\n" + "x" * 200_000 + ",7\n")
    with pytest.raises(InputError, match=r"line 2 of .* cannot be read: field larger than"):
        open_dataset(str(tmp_path / "list.csv"))
    picture(tmp_path / "flat" / "a.png", RED)
    (tmp_path / "labels.txt").write_text("x" * 5000 + " 7\n")
    with pytest.raises(InputError, match="File name too long"):
        open_dataset(str(tmp_path / "flat"), str(tmp_path / "labels.txt"))
    with pytest.raises(InputError, match="File name too long"):
        open_dataset(str(tmp_path / "flat"), "x" * 5000)


def test_files_as_windows_writes_them(folder: Path, tmp_path: Path) -> None:
    """A mark at the beginning, and two characters at the end of each line."""
    names = tmp_path / "labels.txt"
    names.write_bytes(b"\xef\xbb\xbfdog\r\nbird\r\ncat\r\n\r\n")
    found = open_dataset(str(folder), str(names))
    assert (found.classes, found.labels.tolist()) == (("dog", "bird", "cat"), [2, 2, 0])
    (tmp_path / "list.csv").write_bytes(b'\xef\xbb\xbffile,label\r\n"pets/dog/1.png",dog\r\npets/cat/2.png,cat\r\n')
    assert open_dataset(str(tmp_path / "list.csv"), str(names)).labels.tolist() == [0, 2]
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbf1.png 4\r\n\r\n1.png 5\r\n")
    assert open_dataset(str(folder / "dog"), str(tmp_path / "list.txt")).labels.tolist() == [4, 5]
    names.write_text("dog\ncat\n", encoding="utf-16")
    with pytest.raises(InputError, match="not a text file in UTF-8"):
        open_dataset(str(folder), str(names))


def test_numbers_in_a_list_stay_numbers_when_classes_are_named(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", RED)
    rows, names = tmp_path / "list.csv", tmp_path / "labels.txt"
    names.write_text("crane\ncat\ncrane\n")

    def labels(*classes: str) -> list[int]:
        rows.write_text("".join(f"a.png,{name}\n" for name in classes))
        found: list[int] = open_dataset(str(rows), str(names)).labels.tolist()
        return found

    assert labels("2", "0") == [2, 0]
    assert labels("cat") == [1]
    with pytest.raises(InputError, match="'crane' is named twice"):
        labels("cat", "crane")
    with pytest.raises(InputError, match="has the class number 3, and only 0 to 2 have a name"):
        labels("0", "3")
    with pytest.raises(InputError, match="has the class '1', which is not among the 3 known"):
        labels("cat", "1")
    names.write_text("30\n20\n")
    assert labels("20", "30") == [1, 0], "names, where all are known"
    assert labels("0", "1") == [0, 1]


@pytest.mark.parametrize("classes", [("2.0", "10.0"), ("-1", "3")])
def test_numbers_that_number_no_class_are_not_taken_for_names(tmp_path: Path, classes: tuple[str, ...]) -> None:
    picture(tmp_path / "a.png", RED)
    (tmp_path / "list.csv").write_text("".join(f"a.png,{name}\n" for name in classes))
    with pytest.raises(InputError, match="expected a name, or a whole number"):
        open_dataset(str(tmp_path / "list.csv"))


def test_a_line_without_a_class(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", RED)
    (tmp_path / "list.csv").write_text("a.png,1\n\na.png,\n")
    with pytest.raises(InputError, match=r"line 3 of .* is \['a\.png', ''\], expected a file and its class"):
        open_dataset(str(tmp_path / "list.csv"))


def test_a_blank_line_does_not_shift_classes(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "labels.txt"
    names.write_text("dog\n\ncat\n")
    with pytest.raises(InputError, match=r"line 2 of .* is blank"):
        open_dataset(str(folder), str(names))
    names.write_text("dog\ncat\n \n\n")
    assert open_dataset(str(folder), str(names)).labels.tolist() == [1, 1, 0]
    names.write_text("\n")
    with pytest.raises(InputError, match="names no class"):
        open_dataset(str(folder), str(names))


def test_a_flat_list_may_have_spaces(tmp_path: Path) -> None:
    picture(tmp_path / "flat" / "my cat.png", RED)
    picture(tmp_path / "flat" / "b.png", BLUE)
    labels = tmp_path / "labels.txt"
    labels.write_text("my cat.png   tabby\nb.png\tgolden retriever\n")
    found = open_dataset(str(tmp_path / "flat"), str(labels))
    assert (found.classes, found.labels.tolist()) == (("golden retriever", "tabby"), [1, 0])
    labels.write_text("b.png golden retriever\n")
    with pytest.raises(InputError, match=r"names 'b\.png golden', which is not in") as error:
        open_dataset(str(tmp_path / "flat"), str(labels))
    assert "tab" in str(error.value.hint)
    labels.write_text("b.png 1\n\nb.png\n")
    with pytest.raises(InputError, match=r"line 3 of .* is 'b\.png', expected a file and its class"):
        open_dataset(str(tmp_path / "flat"), str(labels))
    labels.write_text("\n")
    with pytest.raises(InputError, match="is empty"):
        open_dataset(str(tmp_path / "flat"), str(labels))


def test_folders_called_by_numbers_are_the_classes_of_those_numbers(tmp_path: Path) -> None:
    for number in range(12):
        picture(tmp_path / "all" / str(number) / "a.png", RED)
    found = open_dataset(str(tmp_path / "all"))
    assert found.classes == tuple(map(str, range(12)))
    assert sorted(found.labels.tolist()) == list(range(12))
    assert found.classes[found.labels[2]] == "10", "folders are read in the order of their names"
    for number in (2, 10):
        picture(tmp_path / "some" / str(number) / "a.png", RED)
    some = open_dataset(str(tmp_path / "some"))
    assert (some.classes, sorted(some.labels.tolist())) == ((), [2, 10])


def test_what_systems_leave_behind_is_no_class(folder: Path) -> None:
    expected = open_dataset(str(folder))
    for name in ("__MACOSX/a.png", ".cache/a.png", "cat/._1.png", "cat/.ipynb_checkpoints/a.png"):
        picture(folder / name, RED)
    found = open_dataset(str(folder))
    assert (found.classes, found.labels.tolist()) == (expected.classes, expected.labels.tolist())


def test_a_class_without_pictures_keeps_its_number(folder: Path) -> None:
    (folder / "cow").mkdir()
    found = open_dataset(str(folder))
    assert (found.classes, found.labels.tolist()) == (("cat", "cow", "dog"), [0, 0, 2])


def test_every_refusal_of_a_place_says_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare" / "cat").mkdir(parents=True)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "head.csv").write_text("file,label\n")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("gone", "gone.npz", "a.txt", "a.txt/b", "empty", "bare", "empty.csv", "head.csv", "empty.npz"):
        with pytest.raises(InputError) as found:
            open_dataset(str(tmp_path / name))
        assert found.value.hint, name
