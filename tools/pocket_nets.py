"""The networks of the pocket family, layer by layer: what is trained and what is written as ONNX come from one list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from edgewise.data.scenes import CLASSES, SIZE


@dataclass(frozen=True)
class Layer:
    """A convolution with batch normalization, or a sum of two layers; then the activation. Inputs are layer numbers."""

    name: str
    kind: Literal["conv", "add"]
    inputs: tuple[int, ...]  # -1 is the image
    channels: int
    size: int  # of the output, which is square
    act: Literal["none", "relu", "relu6"]
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    taken: int = 0  # channels of the input

    @property
    def multiply_adds(self) -> int:
        if self.kind == "add":
            return 0
        return self.size**2 * self.channels * self.taken // self.groups * self.kernel**2


class Net:
    """Layers in the order they run; the last one is averaged over its places and goes through a linear layer."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    @property
    def channels(self) -> int:
        return self.layers[-1].channels if self.layers else 3

    @property
    def last(self) -> int:
        return len(self.layers) - 1

    @property
    def multiply_adds(self) -> int:
        return sum(layer.multiply_adds for layer in self.layers) + self.channels * len(CLASSES)

    def conv(
        self,
        name: str,
        channels: int,
        kernel: int = 3,
        stride: int = 1,
        act: Literal["none", "relu", "relu6"] = "relu",
        *,
        groups: int = 1,
        source: int | None = None,
    ) -> int:
        source = self.last if source is None else source
        taken, size = (3, SIZE) if source < 0 else (self.layers[source].channels, self.layers[source].size)
        made = Layer(
            name, "conv", (source,), channels, -(-size // stride), act, kernel, stride, groups=groups, taken=taken
        )
        self.layers.append(made)
        return self.last

    def add(self, name: str, one: int, other: int, act: Literal["none", "relu"]) -> int:
        both = self.layers[one]
        self.layers.append(Layer(name, "add", (one, other), both.channels, both.size, act))
        return self.last

    # Blocks.

    def separable(self, name: str, channels: int, stride: int = 1) -> None:
        """A depthwise convolution and a pointwise one, as in MobileNet."""
        self.conv(f"{name}.depthwise", self.channels, 3, stride, "relu6", groups=self.channels)
        self.conv(f"{name}.pointwise", channels, 1, 1, "relu6")

    def inverted(self, name: str, channels: int, stride: int = 1, expand: int = 3) -> None:
        """Widened, filtered depthwise, narrowed again; with a shortcut where the shapes allow it, as in MobileNetV2."""
        start, taken = self.last, self.channels
        self.conv(f"{name}.expand", taken * expand, 1, 1, "relu6")
        self.conv(f"{name}.depthwise", taken * expand, 3, stride, "relu6", groups=taken * expand)
        end = self.conv(f"{name}.project", channels, 1, 1, "none")
        if stride == 1 and taken == channels:
            self.add(f"{name}.add", start, end, "none")

    def residual(self, name: str, channels: int, stride: int = 1) -> None:
        """Two plain convolutions beside a shortcut, as in ResNet."""
        start = self.last
        same = stride == 1 and self.channels == channels
        self.conv(f"{name}.first", channels, 3, stride)
        end = self.conv(f"{name}.second", channels, 3, 1, "none")
        short = start if same else self.conv(f"{name}.shortcut", channels, 1, stride, "none", source=start)
        self.add(f"{name}.add", end, short, "relu")


def nano() -> Net:
    net = Net()
    net.conv("stem", 8, 3, 2, "relu6")
    for place, (channels, stride) in enumerate([(16, 2), (32, 2), (32, 1), (64, 2)], 1):
        net.separable(f"block{place}", channels, stride)
    return net


def micro() -> Net:
    net = Net()
    net.conv("stem", 12, 3, 2)
    for place, (channels, stride) in enumerate([(24, 2), (32, 2), (48, 1), (64, 2)], 1):
        net.conv(f"conv{place}", channels, 3, stride)
    return net


def small() -> Net:
    net = Net()
    net.conv("stem", 16, 3, 2, "relu6")
    for place, (channels, stride) in enumerate([(24, 2), (24, 1), (40, 2), (40, 1), (40, 1), (64, 2), (64, 1)], 1):
        net.inverted(f"block{place}", channels, stride)
    net.conv("head", 128, 1, 1, "relu6")
    return net


def medium() -> Net:
    net = Net()
    net.conv("stem", 20, 3, 2)
    for place, (channels, stride) in enumerate([(20, 1), (40, 2), (40, 1), (64, 2), (64, 1), (96, 2)], 1):
        net.residual(f"block{place}", channels, stride)
    return net


def large() -> Net:
    net = Net()
    net.conv("stem", 32, 3, 2)
    widths = [(32, 1), (32, 1), (64, 2), (64, 1), (64, 1), (96, 2), (96, 1), (96, 2)]
    for place, (channels, stride) in enumerate(widths, 1):
        net.residual(f"block{place}", channels, stride)
    return net


NETS: dict[str, Callable[[], Net]] = {"nano": nano, "micro": micro, "small": small, "medium": medium, "large": large}
