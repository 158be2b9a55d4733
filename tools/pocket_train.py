"""Training of the pocket family: scenes are made on all cores, kept on the device, and seen a few times each."""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from edgewise.data.scenes import CLASSES, Split, scenes
from pocket_nets import NETS, Layer, Net
from pocket_onnx import PREPROCESS, classify, onnx_model
from pocket_settings import Settings

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
AGREES = 1e-4  # of ONNX Runtime with the trained network, in logits


class Trained(nn.Module):
    """The layers of a Net with weights."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net
        self.convs, self.norms = nn.ModuleDict(), nn.ModuleDict()
        for layer in net.layers:
            if layer.kind == "conv":
                self.convs[_key(layer)] = _conv(layer)
                self.norms[_key(layer)] = nn.BatchNorm2d(layer.channels)
        self.classify = nn.Linear(net.channels, len(CLASSES))

    def forward(self, images: Any) -> Any:
        values: list[Any] = []
        for layer in self.net.layers:
            inputs = [images if number < 0 else values[number] for number in layer.inputs]
            if layer.kind == "add":
                value = inputs[0] + inputs[1]
            else:
                value = self.norms[_key(layer)](self.convs[_key(layer)](inputs[0]))
            if layer.act != "none":
                value = functional.relu(value) if layer.act == "relu" else functional.relu6(value)
            values.append(value)
        return self.classify(values[-1].mean((2, 3)))

    def folded(self) -> dict[str, NDArray[np.float32]]:
        """Weights and biases with the batch normalization worked into them."""
        arrays = {}
        for layer in self.net.layers:
            if layer.kind == "conv":
                norm = self.norms[_key(layer)]
                scale = (norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()).detach()
                weight = self.convs[_key(layer)].weight.detach().double() * scale[:, None, None, None]
                bias = norm.bias.detach().double() - norm.running_mean.double() * scale
                arrays |= {f"{layer.name}.weight": weight, f"{layer.name}.bias": bias}
        arrays |= {"classify.weight": self.classify.weight.detach(), "classify.bias": self.classify.bias.detach()}
        return {name: value.float().cpu().numpy() for name, value in arrays.items()}


def _key(layer: Layer) -> str:
    return layer.name.replace(".", "_")


def _conv(layer: Layer) -> nn.Module:
    made = nn.Conv2d(
        layer.taken, layer.channels, layer.kernel, layer.stride, layer.kernel // 2, groups=layer.groups, bias=False
    )
    nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
    return made


def make(split: Split, count: int, difficulty: float) -> tuple[Images, Labels]:
    """Scenes from all cores; the same as from one."""
    if count <= 1000:
        return scenes(split, 0, count, difficulty=difficulty)
    starts = range(0, count, 500)
    counts = [min(500, count - start) for start in starts]
    # Started afresh: a process that has threads is not safely forked.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        parts = list(pool.map(_part, repeat(split), starts, counts, repeat(difficulty)))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _part(split: Split, first: int, count: int, difficulty: float) -> tuple[Images, Labels]:
    return scenes(split, first, count, difficulty=difficulty)


def train(names: list[str], out: Path, settings: Settings, device: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Train each network, write it as NAME.onnx to `out`, and say what is to be told of it."""
    start = time.perf_counter()
    images, labels = make("train", settings.scenes, settings.difficulty)
    held_images, held_labels = make("validation", settings.validation, settings.difficulty)
    print(f"{settings.scenes} scenes in {time.perf_counter() - start:.0f} s", flush=True)
    data = torch.from_numpy(images).to(device), torch.from_numpy(labels).to(device)
    held = torch.from_numpy(held_images).to(device), torch.from_numpy(held_labels).to(device)
    for name in names:
        net = NETS[name]()
        start = time.perf_counter()
        model, curve = _fit(name, net, data, held, settings, device)
        parameters = sum(value.numel() for value in model.parameters())
        path = str(out / f"{name}.onnx")
        onnx.save(onnx_model(f"pocket/{name}", net, model.folded(), parameters), path)
        some = held_images[:256]
        with torch.no_grad():
            expected = model(_input(torch.from_numpy(some))).numpy()
        error = float(np.abs(classify(path, some) - expected).max())
        if error > AGREES:
            raise SystemExit(f"{path} differs from the trained network by {error:.1e}: expected {AGREES:.0e} at most")
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        yield (
            name,
            {
                "parameters": parameters,
                "multiply_adds": net.multiply_adds,
                "training_s": round(time.perf_counter() - start, 1),
                "training": asdict(settings),
                "curve": curve,
                "onnx_error": error,
                "device": torch.cuda.get_device_name() if device == "cuda" else device,
                "torch": torch.__version__,
            },
        )


def _fit(name: str, net: Net, data: Any, held: Any, settings: Settings, device: str) -> tuple[Trained, list[Any]]:
    torch.manual_seed(settings.seed)
    fast = device == "cuda"
    torch.backends.cudnn.benchmark = fast
    model = Trained(net).to(device, memory_format=_order(net))
    averaged = copy.deepcopy(model).eval()
    decayed = [value for value in model.parameters() if value.ndim > 1]
    plain = [value for value in model.parameters() if value.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": settings.decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.rate, fused=fast)
    steps = math.ceil(len(data[0]) / settings.batch) * settings.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step / steps, settings.warmup))
    curve, step = [], 0
    for epoch in range(1, settings.epochs + 1):
        model.train()
        total = torch.zeros((), device=device)
        for images, labels in _batches(data, settings.batch):
            with torch.autocast("cuda", torch.bfloat16, enabled=fast):
                logits = model(_varied(_input(images)).contiguous(memory_format=_order(net)))
            loss = functional.cross_entropy(logits.float(), labels, label_smoothing=settings.smoothing)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            _average(averaged, model, min(settings.average, step / (10 + step)))
            total += loss.detach() * len(labels)
        curve.append(
            {
                "epoch": epoch,
                "loss": round(float(total) / len(data[0]), 4),
                "validation_top1": round(_top1(averaged, *held, settings.batch), 4),
            }
        )
        print(f"{name}: {curve[-1]}", flush=True)
    return averaged.cpu(), curve


@torch.no_grad()
def _average(averaged: Trained, model: Trained, keep: float) -> None:
    """Weights and statistics as they were on average over the last steps: better than those of any one step."""
    pairs = zip(averaged.state_dict().values(), model.state_dict().values(), strict=True)
    held, new = zip(*((old, now) for old, now in pairs if old.is_floating_point()), strict=True)
    torch._foreach_lerp_(list(held), list(new), 1 - keep)


def _rate(done: float, warmup: float) -> float:
    """Up in a straight line, then down along a cosine."""
    if done < warmup:
        return (done + 1e-3) / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (done - warmup) / (1 - warmup))))


def _batches(data: Any, size: int) -> Iterator[tuple[Any, Any]]:
    order = torch.randperm(len(data[0]), device=data[0].device)
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield data[0][chosen], data[1][chosen]


def _order(net: Net) -> Any:
    """Of values in memory: plain convolutions are faster with the channels last, depthwise ones much slower."""
    depthwise = any(layer.groups > 1 for layer in net.layers)
    return torch.contiguous_format if depthwise else torch.channels_last


def _input(images: Any) -> Any:
    """As edgewise prepares them: NCHW, scaled, and the mean and deviation taken out."""
    return (images.permute(0, 3, 1, 2).float() / PREPROCESS.divide - PREPROCESS.mean[0]) / PREPROCESS.std[0]


def _varied(images: Any) -> Any:
    """Colours exchanged, negatives, small shifts: the digit stays what it is."""
    images = images[:, torch.randperm(3, device=images.device)]
    sign = torch.randint(0, 2, (len(images), 1, 1, 1), device=images.device) * 2 - 1
    rows, columns = (int(step) for step in torch.randint(0, 9, (2,)))
    height, width = images.shape[2:]
    return functional.pad(images * sign, (4, 4, 4, 4), mode="replicate")[
        :, :, rows : rows + height, columns : columns + width
    ]


@torch.no_grad()
def _top1(model: Any, images: Any, labels: Any, batch: int) -> float:
    right = 0
    for start in range(0, len(images), batch):
        logits = model(_input(images[start : start + batch]))
        right += int((logits.argmax(1) == labels[start : start + batch]).sum())
    return right / len(images)
