"""The pictures and the table of docs/pocket.md, drawn from the scenes and from family.json."""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.data.scenes import SIZE, scenes
from edgewise.zoo import pocket

COLUMNS = 12
ROWS = (0.0, 0.5, 1.0, 1.0)  # difficulties; the last row goes on with other scenes
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#3ca951", "#9c6b4e")
WIDTH, HEIGHT, MARGIN = 760, 300, 46


def draw(docs: Path) -> None:
    (docs / "images").mkdir(exist_ok=True)
    _grid(docs / "images" / "pocket-scenes.png")
    (docs / "images" / "pocket-curves.svg").write_text(_curves(pocket.family()["models"]), encoding="utf-8")
    page = docs / "pocket.md"
    told = re.sub(
        "(?s)(<!-- figures -->\n).*(<!-- end -->)",
        lambda found: found[1] + _table(pocket.family()) + found[2],
        page.read_text(encoding="utf-8"),
    )
    page.write_text(told, encoding="utf-8")


def _grid(path: Path) -> None:
    rows = []
    for place, difficulty in enumerate(ROWS):
        images, _ = scenes("train", COLUMNS * (place == len(ROWS) - 1), COLUMNS, difficulty=difficulty)
        rows.append(images.transpose(1, 0, 2, 3).reshape(SIZE, COLUMNS * SIZE, 3))
    _png(path, np.concatenate(rows))


def _png(path: Path, image: np.ndarray[Any, Any]) -> None:
    """With a palette of 6 × 7 × 6 colours: noise does not compress, so fewer bits are what makes the file small."""
    steps = np.array([5, 6, 5])
    levels = (image * steps + 127) // 255
    numbers = (levels[..., 0] * 42 + levels[..., 1] * 6 + levels[..., 2]).astype(np.uint8)
    palette = bytes(
        value for red in range(6) for green in range(7) for blue in range(6)
        for value in (red * 255 // 5, green * 255 // 6, blue * 255 // 5)
    )  # fmt: skip
    height, width = numbers.shape
    lines = np.pad(numbers, ((0, 0), (1, 0))).tobytes()  # each line starts with its filter: none
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    written = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(written))


def _table(family: Mapping[str, Any]) -> str:
    rows = [
        "| model | convolutions | parameters | multiply-adds | file | top-1 | top-5 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, about in family["models"].items():
        rows.append(
            f"| `{name}` | {_kind(pocket.path(name))} | {about['parameters']:,} | {about['multiply_adds'] / 1e6:.2f} M "
            f"| {about['bytes'] / 1e6:.2f} MB | {about['top1'] * 100:.2f} % | {about['top5'] * 100:.2f} % |"
        )
    rows.append(f"| any of them right | | | | | {family['oracle']['top1'] * 100:.2f} % | |")
    return "\n".join(rows) + "\n"


def _kind(path: str) -> str:
    import onnx

    model = onnx.load(path)
    grouped = any(a.name == "group" and a.i > 1 for node in model.graph.node for a in node.attribute)
    added = any(node.op_type == "Add" for node in model.graph.node)
    return f"{'depthwise' if grouped else 'plain'}{', shortcuts' if added else ''}"


def _curves(models: Mapping[str, Any]) -> str:
    """Left: validation accuracy over the epochs. Right: test accuracy over multiply-adds, on a logarithmic scale."""
    half = WIDTH / 2
    low = math.floor(min(point["validation_top1"] for about in models.values() for point in about["curve"]) * 10) / 10
    epochs = max(len(about["curve"]) for about in models.values())
    costs = [math.log10(about["multiply_adds"]) for about in models.values()]
    first, last = math.floor(min(costs)), math.ceil(max(costs))

    def across(share: float, panel: int) -> float:
        return panel * half + MARGIN + share * (half - MARGIN - 24)

    def down(top1: float) -> float:
        return HEIGHT - MARGIN - (top1 - low) / (1 - low) * (HEIGHT - MARGIN - 40)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" fill="#555">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{across(0, 0):.0f}" y="20">top-1 on validation scenes, by epoch</text>',
        f'<text x="{across(0, 1):.0f}" y="20">top-1 on test scenes, by multiply-adds</text>',
    ]
    for panel in (0, 1):
        for tenth in range(round(low * 10), 11):
            y = down(tenth / 10)
            parts.append(
                f'<path d="M{across(0, panel):.1f} {y:.1f}H{across(1, panel):.1f}" stroke="#ddd"/>'
                f'<text x="{across(0, panel) - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{tenth * 10} %</text>'
            )
    for epoch in range(1, epochs + 1):
        x = across((epoch - 1) / max(1, epochs - 1), 0)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 24}" text-anchor="middle">{epoch}</text>')
    for power in range(first, last + 1):
        x = across((power - first) / (last - first), 1)
        label = f"{10 ** (power - 6):g} M"
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 24}" text-anchor="middle">{label}</text>')
    for colour, cost, (name, about) in zip(COLOURS, costs, models.items(), strict=True):
        points = " ".join(
            f"{across((point['epoch'] - 1) / max(1, epochs - 1), 0):.1f},{down(point['validation_top1']):.1f}"
            for point in about["curve"]
        )
        x, y = across((cost - first) / (last - first), 1), down(about["top1"])
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle">{name.removeprefix("pocket/")}</text>')
    return "\n".join([*parts, "</svg>", ""])
