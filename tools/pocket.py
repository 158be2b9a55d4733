"""The pocket family: its digits, its training, what is kept in the package, and the pictures of docs/pocket.md.

python tools/pocket.py digits              write data/digits.npz from scikit-learn
python tools/pocket.py train --out DIR     train the networks (PyTorch; minutes on a GPU, hours without)
python tools/pocket.py keep DIR            measure them on the test scenes and put them into the package
python tools/pocket.py draw                the pictures and the table of docs/pocket.md
"""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "edgewise"
TRAINING = "training.json"


def digits() -> None:
    import numpy as np
    from sklearn.datasets import load_digits

    found = load_digits()
    kept = {"images": found.images.astype(np.uint8), "labels": found.target.astype(np.uint8)}
    np.savez_compressed(PACKAGE / "data" / "digits.npz", **kept)


def train(out: str, names: list[str], device: str | None, given: dict[str, float]) -> None:
    import torch

    from pocket_nets import NETS
    from pocket_settings import Settings
    from pocket_train import train as fit

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    told = {}
    for name, about in fit(names or list(NETS), folder, Settings(**given), device):
        told[name] = about
        (folder / TRAINING).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("digits")
    commands.add_parser("draw")
    commands.add_parser("keep").add_argument("folders", nargs="+")
    training = commands.add_parser("train")
    training.add_argument("names", nargs="*")
    training.add_argument("--out", required=True)
    training.add_argument("--device")
    for name, kind in _settings().items():
        training.add_argument(f"--{name}", type=kind, default=argparse.SUPPRESS)
    given = vars(parser.parse_args())
    command = given.pop("command")
    if command == "digits":
        digits()
    elif command == "train":
        train(given.pop("out"), given.pop("names"), given.pop("device"), given)
    elif command == "keep":
        from pocket_keep import keep

        keep([Path(folder) for folder in given["folders"]], PACKAGE / "zoo" / "pocket", TRAINING)
    else:
        from pocket_draw import draw

        draw(ROOT / "docs")


def _settings() -> dict[str, type]:
    """Of a training, with their types; without importing PyTorch."""
    from pocket_settings import Settings

    return {field.name: type(field.default) for field in fields(Settings)}


if __name__ == "__main__":
    main()
