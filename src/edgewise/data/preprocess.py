"""Images to a model's input: resized by Pillow, cut, scaled and laid out by numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.types import Preprocess
from .dataset import Image

Batch = NDArray[np.float32]


def prepare(images: Sequence[Image], how: Preprocess) -> Batch:
    """One array of all images, which must have come to the same size."""
    fitted = [fit(image, how) for image in images]
    height, width, _ = fitted[0].shape
    for image in fitted:
        if image.shape != fitted[0].shape:
            raise InputError(
                f"images of {width}x{height} and {image.shape[1]}x{image.shape[0]} do not make one batch",
                "bring them to one size: --preprocess 'imagenet(resize=256, crop=224)'",
            )
    nchw = how.layout == "nchw"
    batch = np.empty((len(fitted), 3, height, width) if nchw else (len(fitted), height, width, 3), np.float32)
    # One multiplication and one addition per value: (x / divide - mean) / std.
    std = np.array(how.std, np.float64)
    scale = (1 / (how.divide * std)).astype(np.float32)
    shift = (-np.array(how.mean, np.float64) / std).astype(np.float32)
    for place, image in zip(batch, fitted, strict=True):
        ordered = image[:, :, ::-1] if how.order == "bgr" else image
        for channel in range(3):
            plane = place[channel] if nchw else place[:, :, channel]
            np.multiply(ordered[:, :, channel], scale[channel], out=plane, dtype=np.float32)
            plane += shift[channel]
    return batch


def fit(image: Image, how: Preprocess) -> Image:
    """The image resized and cut."""
    height, width, _ = image.shape
    if how.squash:
        return _resized(image, how.crop, how.crop, how.interpolation) if how.crop else image
    if how.resize and min(height, width) != how.resize:
        short = min(height, width)
        image = _resized(image, how.resize * height // short, how.resize * width // short, how.interpolation)
        height, width, _ = image.shape
    if not how.crop:
        return image
    if min(height, width) < how.crop:
        raise InputError(
            f"an image of {width}x{height} is smaller than the crop of {how.crop}",
            f"--preprocess 'imagenet(resize={how.crop * 8 // 7}, crop={how.crop})'",
        )
    top, left = round((height - how.crop) / 2), round((width - how.crop) / 2)
    return image[top : top + how.crop, left : left + how.crop]


def _resized(image: Image, height: int, width: int, interpolation: str) -> Image:
    if image.shape[:2] == (height, width):
        return image
    from PIL import Image as pictures

    method = pictures.Resampling[interpolation.upper()]
    return np.asarray(pictures.fromarray(image).resize((width, height), method))
