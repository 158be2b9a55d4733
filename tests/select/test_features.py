"""Features: what is planted in an image is found in its numbers; any image has finite ones, and always the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from edgewise.core.errors import InputError
from edgewise.select.features import FAMILIES, NAMES, PAPER, THUMBNAIL, extract
from edgewise.select.features.colour import grey_of
from edgewise.select.features.main_object import otsu
from edgewise.select.features.reduce import PIXELS, reduced, step_of
from edgewise.select.features.runs import components, links, runs_of_mask, runs_of_places

Image = NDArray[np.uint8]


def canvas(height: int, width: int, colour: tuple[int, int, int] = (0, 0, 0)) -> Image:
    image = np.empty((height, width, 3), np.uint8)
    image[:] = colour
    return image


def named(image: Image) -> dict[str, float]:
    return dict(zip(NAMES, extract(image).tolist(), strict=True))


def bins(found: dict[str, float], name: str) -> list[float]:
    return [found[f"{name}{number}"] for number in range(1, 8)]


def test_the_names_are_those_of_the_papers_table() -> None:
    # The paper says 30, lists 29, removes 12 and goes on with 17.
    assert len(NAMES) == len(set(NAMES)) == 29
    assert len(PAPER) == 7
    assert set(PAPER) <= set(NAMES)


def test_brightness_of_one_colour() -> None:
    found = named(canvas(40, 50, (255, 255, 255)))
    for name in ("avg_brightness", "brightness_rms", "avg_perceived_brightness", "perceived_brightness_rms"):
        assert found[name] == pytest.approx(255, abs=1e-3)
    assert found["contrast"] == 0
    green = named(canvas(40, 50, (0, 200, 0)))
    assert green["avg_brightness"] == pytest.approx(0.587 * 200, abs=1)
    assert green["avg_perceived_brightness"] == pytest.approx(math.sqrt(0.691) * 200, rel=1e-5)


def test_half_black_half_white() -> None:
    image = canvas(60, 60)
    image[:, 30:] = 255
    found = named(image)
    assert found["avg_brightness"] == pytest.approx(127.5)
    assert found["brightness_rms"] == pytest.approx(255 / math.sqrt(2))
    assert found["contrast"] == pytest.approx(127.5)
    assert found["avg_perceived_brightness"] == pytest.approx(127.5, rel=1e-5)
    assert found["perceived_brightness_rms"] == pytest.approx(255 / math.sqrt(2), rel=1e-5)


@pytest.mark.parametrize(
    ("colour", "place"),
    [
        ((255, 0, 0), 1),
        ((255, 255, 0), 2),
        ((0, 255, 0), 3),
        ((0, 255, 255), 4),
        ((0, 0, 255), 5),
        ((255, 0, 255), 6),
        ((255, 0, 40), 7),
        ((90, 90, 90), 1),
    ],
)
def test_one_hue_fills_one_bin(colour: tuple[int, int, int], place: int) -> None:
    assert bins(named(canvas(32, 32, colour)), "hue") == [float(number == place) for number in range(1, 8)]


def test_hues_are_shares() -> None:
    image = canvas(32, 32, (255, 0, 0))
    image[:8] = (0, 255, 0)
    assert bins(named(image), "hue") == [0.75, 0, 0.25, 0, 0, 0, 0]


@pytest.mark.parametrize("bright", [True, False])
def test_a_rectangle_has_its_area_perimeter_and_aspect_ratio(bright: bool) -> None:
    image = canvas(60, 80, (20, 20, 20) if bright else (230, 230, 230))
    image[10:30, 15:65] = 200 if bright else 40
    image[40:44, 10:14] = 200 if bright else 40
    found = named(image)
    assert found["area_by_perim"] == pytest.approx(20 * 50 / (2 * (20 + 50)))
    assert found["aspect_ratio"] == pytest.approx(50 / 20)


def test_a_rectangle_in_a_large_image_is_found_in_the_small_one() -> None:
    image = canvas(720, 720, (20, 20, 20))
    image[100:300, 150:650] = 200
    found = named(image)
    assert found["area_by_perim"] == pytest.approx(20 * 50 / (2 * (20 + 50)))
    assert found["aspect_ratio"] == pytest.approx(50 / 20)


def test_a_frame_has_an_inner_perimeter_too() -> None:
    image = canvas(50, 50)
    image[10:40, 10:40] = 255
    image[20:30, 20:30] = 0
    found = named(image)
    assert found["area_by_perim"] == pytest.approx((900 - 100) / (120 + 40))
    assert found["aspect_ratio"] == 1


@pytest.mark.parametrize(("degrees", "place"), [(0, 1), (25, 2), (50, 3), (90, 4), (100, 5), (125, 6), (150, 7)])
def test_an_edge_has_its_angle(degrees: int, place: int) -> None:
    """Anticlockwise as seen, so rows count downwards; bins of 180/7 degrees begin a quarter of one below zero."""
    y, x = np.mgrid[:64, :64] - 32.0
    angle = math.radians(degrees)
    side = x * math.sin(angle) + y * math.cos(angle)
    image = canvas(64, 64)
    image[:] = np.clip(128 + 60 * side, 0, 255)[:, :, None]
    shares = bins(named(image), "edge_angle")
    assert shares[place - 1] > 0.9
    assert sum(shares) == pytest.approx(1)


def test_an_edge_has_its_length() -> None:
    image = canvas(64, 64)
    image[:, 32:] = 200
    # 62 pixels from the second row to the last but one: the bin from 33 to 64.
    assert bins(named(image), "edge_length") == [0, 0, 0, 0, 0, 1, 0]
    image[:, 10:16] = 100
    assert sum(bins(named(image), "edge_length")) == 3


def test_a_rectangle_is_one_long_edge_and_four_corners() -> None:
    image = canvas(64, 64)
    image[12:50, 12:50] = 200
    found = named(image)
    assert sum(bins(found, "edge_length")) <= 5
    assert sum(number * count for number, count in enumerate(bins(found, "edge_length"))) >= 4
    assert found["n_keypoints"] == 4


def test_dots_are_keypoints_and_straight_edges_are_not() -> None:
    image = canvas(64, 64, (100, 100, 100))
    for number in range(5):
        image[10 + 10 * number, 12 + 8 * number] = 200
    assert named(image)["n_keypoints"] == 5
    half = canvas(64, 64)
    half[:, 30:] = 255
    assert named(half)["n_keypoints"] == 0


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2), (3, 3), (7, 7), (1, 4000), (3000, 2), (500, 333)])
@pytest.mark.parametrize("what", ["constant", "noise", "checks"])
def test_any_image_has_finite_features(shape: tuple[int, int], what: str) -> None:
    image = canvas(*shape, (17, 200, 90))
    if what == "noise":
        image[:] = np.random.default_rng(0).integers(0, 256, image.shape)
    if what == "checks":
        image[:] = 255 * (np.indices(shape).sum(axis=0) % 2)[:, :, None]
    row = extract(image)
    assert row.shape == (len(NAMES),)
    assert np.isfinite(row).all()


def test_a_grey_image_is_like_any_other() -> None:
    random = np.random.default_rng(1)
    image = np.repeat(random.integers(0, 256, (48, 48, 1)).astype(np.uint8), 3, axis=2)
    found = named(image)
    assert bins(found, "hue") == [1, 0, 0, 0, 0, 0, 0]
    assert found["avg_brightness"] == pytest.approx(image.mean(), abs=0.5)


@settings(max_examples=30, deadline=None)
@given(arrays(np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40), st.just(3))))
def test_the_same_pixels_have_the_same_features(image: Image) -> None:
    first = extract(image)
    assert np.isfinite(first).all()
    # Neither memory layout nor what was computed before makes a difference.
    other = np.asfortranarray(image)
    extract(canvas(33, 20, (1, 2, 3)))
    assert (extract(other) == first).all()
    read_only = image.copy()
    read_only.setflags(write=False)
    assert (extract(read_only) == first).all()


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_asked_for_is_the_same_as_among_all(name: str) -> None:
    image = np.random.default_rng(3).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    image[10:30, 5:25] //= 4
    place = NAMES.index(name)
    only = extract(image, only=(name,))
    assert only[place] == extract(image)[place]
    assert (only[np.arange(len(NAMES)) != place] == 0).any()


@pytest.mark.parametrize(
    "image", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), "u1")]
)
def test_what_is_no_image_is_refused(image: NDArray[np.uint8]) -> None:
    with pytest.raises(InputError, match="RGB"):
        extract(image)


@pytest.mark.parametrize(
    ("shape", "step"),
    [((32, 32), 1), ((96, 100), 1), ((112, 112), 2), ((224, 224), 3), ((448, 448), 6), ((1024, 1024), 14)],
)
def test_large_images_are_looked_at_in_few_pixels(shape: tuple[int, int], step: int) -> None:
    assert step_of(*shape) == step
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    planes = reduced(image)
    assert planes.shape == (3, shape[0] // step, shape[1] // step)
    assert abs(float(planes.mean()) - float(image.mean())) < 2


def test_two_by_two_is_the_mean_of_its_pixels() -> None:
    image = np.random.default_rng(0).integers(0, 256, (120, 140, 3)).astype(np.uint8)
    assert step_of(120, 140) == 2
    exact = image.reshape(60, 2, 70, 2, 3).mean(axis=(1, 3)).transpose(2, 0, 1)
    assert np.abs(reduced(image) - exact).max() <= 1
    assert abs(float((reduced(image) - exact).mean())) < 0.05


def test_parts_are_those_of_a_plain_walk() -> None:
    """On random pictures from nearly empty to nearly full, with their last column empty."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        mask = random.random((random.integers(1, 30), random.integers(2, 30))) < random.uniform(0.05, 0.95)
        mask[:, -1] = False
        runs = runs_of_mask(mask)
        other = runs_of_places(np.flatnonzero(mask), mask.shape[1])
        assert (runs.starts == other.starts).all()
        assert (runs.ends == other.ends).all()
        root = components(len(runs.starts), links(runs))
        sizes = np.bincount(root, weights=runs.pixels)
        assert sorted(sizes[sizes > 0].astype(int).tolist()) == sorted(walked(mask))


def walked(mask: NDArray[np.bool_]) -> list[int]:
    left = {(int(y), int(x)) for y, x in np.argwhere(mask)}
    sizes = []
    while left:
        todo, size = [left.pop()], 0
        while todo:
            y, x = todo.pop()
            size += 1
            around = {(y + down, x + across) for down in (-1, 0, 1) for across in (-1, 0, 1)} & left
            left -= around
            todo += around
        sizes.append(size)
    return sizes


def test_otsu_parts_two_heaps() -> None:
    counts = np.zeros(256, np.int64)
    counts[[40, 42, 44]] = 100
    counts[[180, 190]] = 30
    threshold = otsu(counts)
    assert threshold is not None
    assert 44 <= threshold < 180
    counts[:] = 0
    counts[7] = 5
    assert otsu(counts) is None


def test_grey_is_luma() -> None:
    image = np.random.default_rng(0).integers(0, 256, (20, 20, 3)).astype(np.uint8)
    exact = image @ np.array([0.299, 0.587, 0.114])
    assert np.abs(grey_of(reduced(image)) - exact).max() <= 1


def thumbnail(image: Image) -> Image:
    row = extract(image, (THUMBNAIL,))
    assert row.shape == (len(NAMES) + PIXELS,) and not row[: len(NAMES)].any()
    found = row[len(NAMES) :].astype(np.uint8)
    assert (found == row[len(NAMES) :]).all()
    return found.reshape(3, 16, 16)


def test_every_feature_is_of_one_family() -> None:
    everything = [name for family in FAMILIES.values() for name in family]
    assert sorted(everything) == sorted((*NAMES, THUMBNAIL))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_by_itself_is_as_among_all_and_nothing_else(family: str) -> None:
    image = np.random.default_rng(4).integers(0, 256, (60, 50, 3)).astype(np.uint8)
    image[10:40, 5:25] //= 4
    all_of_it, own = extract(image, (*NAMES, THUMBNAIL)), extract(image, FAMILIES[family][:1])
    mine = np.array([name in FAMILIES[family] for name in NAMES] + [family == THUMBNAIL] * PIXELS)[: len(own)]
    assert (own[mine] == all_of_it[: len(own)][mine]).all() and own[mine].any()
    assert not own[~mine].any()


def test_a_thumbnail_shows_where_what_colour_is() -> None:
    image = canvas(64, 96, (10, 20, 30))
    image[:32, 48:] = (200, 100, 50)
    found = thumbnail(image)
    assert (found[:, :8, 8:] == np.array([200, 100, 50])[:, None, None]).all()
    assert (found[:, 8:] == np.array([10, 20, 30])[:, None, None]).all()
    assert (found[:, :, :8] == np.array([10, 20, 30])[:, None, None]).all()


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 9), (9, 1), (15, 17), (16, 16), (1, 4000), (3000, 2), (107, 107), (224, 224)]
)
def test_a_thumbnail_has_the_mean_of_its_image(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(100, 156, (*shape, 3)).astype(np.uint8)
    found = thumbnail(image)
    assert found.min() >= 100 and found.max() < 156
    assert np.abs(found.mean(axis=(1, 2)) - reduced(image).mean(axis=(1, 2))).max() < 12
    assert (thumbnail(canvas(*shape, (17, 200, 90))) == np.array([17, 200, 90])[:, None, None]).all()
