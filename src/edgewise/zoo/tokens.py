"""Layers over rows of numbers, one row per place of an image: attention and what stands around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .layers import Net, Value
from .moments import Moments
from .moments import silu as curve
from .weights import filters, rounded


@dataclass(frozen=True)
class Tokens:
    """A tensor (batch, count, channels): its name, its shape, and what its channels are expected to hold."""

    name: str
    count: int
    channels: int
    moments: Moments

    @property
    def shape(self) -> tuple[int, ...]:
        return self.count, self.channels


def rows(net: Net, x: Value, per_place: int = 1) -> Tokens:
    """The channels of each place as one row, or as several, one after the other."""
    channels = x.channels // per_place
    name = net.node("Transpose", [x.name], perm=[0, 2, 3, 1])[0]
    count = x.height * x.width * per_place
    name = reshape(net, name, count, channels)
    if per_place == 1:
        return Tokens(name, count, channels, x.moments)
    mean, variance = (part.reshape(per_place, -1).mean(axis=0) for part in (x.moments.mean, x.moments.variance))
    return Tokens(name, count, channels, Moments(mean, variance))


def stack(net: Net, *parts: Tokens) -> Tokens:
    """All rows of the first, then those of the next; they hold values of one kind."""
    name = net.node("Concat", [part.name for part in parts], axis=1)[0]
    return replace(parts[0], name=name, count=sum(part.count for part in parts))


def reshape(net: Net, name: str, *shape: int) -> str:
    """To (batch, *shape): whatever the batch is, it is copied."""
    into = net.constant(f"reshape_{net.label()}.shape", np.array([0, *shape]))
    return net.node("Reshape", [name, into])[0]


def dense(net: Net, x: Tokens, out: int, gain: float = 1.0) -> Tokens:
    """The same fully connected layer for each row; `gain`: the deviation of what comes out."""
    net.claim(out, x.channels + 1)
    label, beta = f"matmul_{net.label()}", net.random.uniform(-0.2, 0.2, out)
    weight, mean = filters(net.random, x.moments, out, 1, 1, None, gain)
    net.parameters += weight.size + out
    name = net.node("MatMul", [x.name, net.constant(f"{label}.weight", weight.reshape(out, -1).T)])[0]
    name = net.node("Add", [name, net.constant(f"{label}.bias", rounded(beta - mean))])[0]
    return Tokens(name, x.count, out, Moments(beta, np.full(out, gain**2)))


def layer_norm(net: Net, x: Tokens) -> Tokens:
    """Each row brought to mean zero and variance one: channels that differ in mean keep differing."""
    label = f"layernormalization_{net.label()}"
    scale = net.constant(f"{label}.scale", np.ones(x.channels, np.float32))
    beta = net.random.uniform(-0.2, 0.2, x.channels)
    bias = net.constant(f"{label}.bias", rounded(beta))
    net.parameters += 2 * x.channels
    name = net.node("LayerNormalization", [x.name, scale, bias], axis=-1, epsilon=1e-6)[0]
    centred = x.moments.mean - x.moments.mean.mean()
    power = np.mean(x.moments.variance + centred**2)
    return replace(x, name=name, moments=Moments(centred / np.sqrt(power) + beta, x.moments.variance / power))


def plus(net: Net, x: Tokens, y: Tokens) -> Tokens:
    return replace(x, name=net.node("Add", [x.name, y.name])[0], moments=x.moments.plus(y.moments))


def gelu(net: Net, x: Tokens) -> Tokens:
    """Written out as exporters do, which is the form that engines fuse; opset 17 has no operator for it."""
    inner = net.node("Div", [x.name, net.shared("root_two", 2**0.5)])[0]
    inner = net.node("Erf", [inner])[0]
    inner = net.node("Add", [inner, net.shared("one", 1)])[0]
    inner = net.node("Mul", [x.name, inner])[0]
    name = net.node("Mul", [inner, net.shared("half", 0.5)])[0]
    # By a hyperbolic tangent: to 3 digits, which is enough for moments.
    moments = x.moments.through(lambda z: z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2)
    return replace(x, name=name, moments=moments)


def silu(net: Net, x: Tokens) -> Tokens:
    inner = net.node("Sigmoid", [x.name])[0]
    name = net.node("Mul", [x.name, inner])[0]
    return replace(x, name=name, moments=x.moments.through(curve))


def softmax(net: Net, x: Tokens) -> Tokens:
    """Within each row, which then adds up to one."""
    even = np.full(x.channels, 1 / x.channels)
    return replace(x, name=net.node("Softmax", [x.name], axis=-1)[0], moments=Moments(even, even**2))


def attention(net: Net, x: Tokens, heads: int, apart: int = 1, gain: float = 1.0) -> Tokens:
    """Each row looks at all rows; with `apart`, row by row in turn, only at those of its own kind.

    Rows of one kind see the rows of another as little as heads see each other, so that kinds are so many more heads.
    """
    count, width = x.count // apart, x.channels // heads
    joined = dense(net, x, 3 * x.channels)
    sizes = net.constant(f"split_{net.label()}.sizes", np.full(3, x.channels))
    parts = net.node("Split", [joined.name, sizes], outputs=3, axis=2)
    query, key, value = (reshape(net, part, count, apart * heads, width) for part in parts)
    query = net.node("Transpose", [query], perm=[0, 2, 1, 3])[0]
    query = net.node("Mul", [query, net.shared(f"scale_{width}", width**-0.5)])[0]
    key = net.node("Transpose", [key], perm=[0, 2, 3, 1])[0]
    value = net.node("Transpose", [value], perm=[0, 2, 1, 3])[0]
    weights = net.node("Softmax", [net.node("MatMul", [query, key])[0]], axis=-1)[0]
    seen = net.node("MatMul", [weights, value])[0]
    seen = reshape(net, net.node("Transpose", [seen], perm=[0, 2, 1, 3])[0], x.count, x.channels)
    values = joined.moments.take(np.arange(2 * x.channels, 3 * x.channels))
    return dense(net, replace(x, name=seen, moments=values.average(count)), x.channels, gain)


def transformer(
    net: Net, x: Tokens, heads: int, hidden: int, curve: Literal["gelu", "silu"], gain: float, apart: int = 1
) -> Tokens:
    """One layer: attention, then two fully connected layers, each beside what it adds to."""
    x = plus(net, x, attention(net, layer_norm(net, x), heads, apart, gain))
    inner = dense(net, layer_norm(net, x), hidden)
    inner = gelu(net, inner) if curve == "gelu" else silu(net, inner)
    return plus(net, x, dense(net, inner, x.channels, gain))
