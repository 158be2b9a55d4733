"""Trained networks put into the package: measured on the test scenes, with the record of their training."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.data.scenes import TEST_COUNT, scenes
from pocket_nets import NETS
from pocket_onnx import classify


def keep(folders: list[Path], into: Path, training: str) -> None:
    """Each network from the first of the folders that has it."""
    images, labels = scenes("test", 0, TEST_COUNT)
    models: dict[str, Any] = {}
    right: list[Any] = []
    for name in NETS:
        folder = next((each for each in folders if (each / f"{name}.onnx").exists()), None)
        if folder is None:
            raise SystemExit(f"no {name}.onnx in {', '.join(map(str, folders))}")
        about = json.loads((folder / training).read_text(encoding="utf-8"))[name]
        logits = classify(str(folder / f"{name}.onnx"), images)
        # Of equal logits the first class counts, as argmax has it.
        ranks = (-logits).argsort(1, kind="stable")
        right.append(ranks[:, 0] == labels)
        shutil.copyfile(folder / f"{name}.onnx", into / f"{name}.onnx")
        models[f"pocket/{name}"] = {
            "parameters": about.pop("parameters"),
            "multiply_adds": about.pop("multiply_adds"),
            "top1": float(right[-1].mean()),
            "top5": float((ranks[:, :5] == labels[:, None]).any(1).mean()),
            "correct": int(right[-1].sum()),
            "bytes": (into / f"{name}.onnx").stat().st_size,
            **about,
        }
        print(f"pocket/{name}: {models[f'pocket/{name}']['top1']:.2%}", flush=True)
    family = {
        "models": models,
        "oracle": {"top1": float(np.any(right, axis=0).mean()), "correct": int(np.any(right, axis=0).sum())},
        "scenes": {
            "split": "test",
            "count": TEST_COUNT,
            "difficulty": 1.0,
            "sha256": hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest(),
        },
    }
    print(f"oracle: {family['oracle']['top1']:.2%}")
    (into / "family.json").write_text(_text(family), encoding="utf-8")


def _text(family: dict[str, Any]) -> str:
    """JSON, one line per point of a curve."""
    text = json.dumps(family, indent=1)
    for model in family["models"].values():
        for point in model["curve"]:
            text = text.replace(json.dumps([point], indent=1)[3:-2].replace("\n", "\n   "), json.dumps(point))
    return text + "\n"
