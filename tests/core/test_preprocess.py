"""How an image becomes an input, as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.core.errors import InputError
from edgewise.core.preprocess import PRESETS, parse_preprocess
from edgewise.core.types import Preprocess

numbers = st.floats(-300, 300, allow_nan=False)
positive = st.floats(1e-3, 300)


@given(
    st.builds(
        Preprocess,
        resize=st.integers(0, 16384),
        crop=st.integers(0, 16384),
        squash=st.booleans(),
        interpolation=st.sampled_from(("nearest", "bilinear", "bicubic")),
        divide=positive,
        mean=st.tuples(numbers, numbers, numbers),
        std=st.tuples(positive, positive, positive),
        order=st.sampled_from(("rgb", "bgr")),
        layout=st.sampled_from(("nchw", "nhwc")),
        label_offset=st.integers(0, 16384),
    )
)
def test_text_and_back(preprocess: Preprocess) -> None:
    assert parse_preprocess(str(preprocess)) == preprocess


@pytest.mark.parametrize("name", PRESETS)
def test_a_usual_one_is_written_by_its_name(name: str) -> None:
    assert str(PRESETS[name]) == name


def test_what_differs_is_written_beside_the_name() -> None:
    assert str(parse_preprocess("imagenet(crop=288,resize=320)")) == "imagenet(resize=320, crop=288)"
    assert parse_preprocess("unit(mean=0.5)").mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("imagnet", "known: unit, raw, imagenet"),
        ("imagenet(size=3)", "it has resize, crop"),
        ("imagenet(crop=-1)", "whole number"),
        ("imagenet(crop=99999)", "up to 16384"),
        ("imagenet(std=0)", "positive"),
        ("imagenet(mean=1/2)", "one number, or three"),
        ("imagenet(mean=nan)", "takes numbers"),
        ("imagenet(order=grb)", "rgb, bgr"),
        ("imagenet(squash=yes)", "true or false"),
        ("imagenet(", "expected name"),
    ],
)
def test_what_is_not_one_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        parse_preprocess(text)
