"""`edgewise zoo`: the built-in networks, and how to have one as a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from ..zoo.catalog import Entry


def run(
    action: Annotated[str, "list or export"] = "list",
    name: Annotated[str | None, "the network to export; or those to list, such as 'resnet*'"] = None,
    *,
    output: Annotated[str | None, "the file to write (default: NAME.onnx)"] = None,
    batch: Annotated[int | None, "a fixed batch size (default: left open)"] = None,
    size: Annotated[int | None, "height and width of its images (default: the usual ones)"] = None,
    classes: Annotated[int | None, "how many classes it tells apart (default: the usual ones)"] = None,
    seed: Annotated[int | None, "of the weights (default: 0)"] = None,
    force: Annotated[bool, "write over a file that is already there"] = False,
    json_: Annotated[bool, "what there is to know of each network, or where it was written, as JSON"] = False,
) -> None:
    """List the built-in networks, or export one as an ONNX file.

    Parameters and multiply-adds are those of one image of the usual size. Accuracy is what was published for the
    trained network on ImageNet: the weights here are seeded noise, good for speed and memory, not for answers.
    Only the pocket family is trained, and its accuracy is its own.
    """
    from ..core.errors import InputError

    settings = {"output": output, "batch": batch, "size": size, "classes": classes, "seed": seed}
    if action == "export":
        if name is None:
            raise InputError("export needs the name of a network", "edgewise zoo export resnet50 -o r50.onnx")
        _export(name, output or f"{name.rpartition('/')[2]}.onnx", settings, force=force, as_json=json_)
        return
    if action != "list":
        hint = f"edgewise zoo export {action}" if action in _entries() else f"edgewise zoo list '*{action}*'"
        raise InputError(f"zoo has no {action!r}; it has list and export", hint)
    extra = next((key for key, value in settings.items() if value is not None), "force" if force else None)
    if extra is not None:
        raise InputError(f"--{extra} is for export", f"edgewise zoo export {name or 'resnet50'} ...")
    _list(name, as_json=json_)


def _entries() -> dict[str, Entry]:
    """The networks that are built, and the pocket family, which is kept."""
    from ..zoo import pocket
    from ..zoo.catalog import CATALOG, Entry

    entries = dict(CATALOG)
    for name in pocket.names():
        known = pocket.family()["models"][name]
        size = (known["parameters"], known["multiply_adds"])
        entries[name] = Entry("pocket", None, *size, (known["top1"] * 100, known["top5"] * 100), "its test scenes")
    return entries


def _list(pattern: str | None, *, as_json: bool) -> None:
    from fnmatch import fnmatchcase

    from ..core.records import dumps
    from ..core.types import Column, Section
    from ..report import terminal

    chosen = {name: entry for name, entry in _entries().items() if pattern is None or fnmatchcase(name, pattern)}
    if not chosen:
        raise _unknown(pattern or "")
    ordered = sorted(chosen.items(), key=lambda pair: (pair[1].task, pair[1].family, pair[1].multiply_adds))
    if as_json:
        print(dumps({"networks": {name: entry for name, entry in ordered}}))
        return
    columns = (
        Column("name"),
        Column("family", spare=3),
        Column("task"),
        Column("year"),
        Column("parameters", "amount"),
        Column("multiply_adds", "amount"),
        Column("top1", "accuracy"),
        Column("top5", "accuracy", spare=1),
        Column("source", spare=2),
    )
    rows = []
    for name, entry in ordered:
        year = str(entry.paper.year) if entry.paper else ""
        top1, top5 = (value / 100 for value in entry.accuracy) if entry.accuracy else (None, None)
        size = (entry.parameters, entry.multiply_adds)
        rows.append((name, entry.family, entry.task, year, *size, top1, top5, entry.source))
    out = terminal.console(sys.stdout)
    terminal.draw(Section("Networks", columns, tuple(rows)), out, keep=("name", "task", "year", "source"))
    out.print(
        f"\n{len(rows)} networks; weights are noise and accuracy is as published, but for the pocket family",
        style="dim",
    )
    out.print(f"→ edgewise bench {ordered[0][0]}, or: edgewise zoo export {ordered[0][0]}", style="dim")


def _export(name: str, path: str, settings: dict[str, str | int | None], *, force: bool, as_json: bool) -> None:
    import os

    from .. import zoo
    from ..core.errors import InputError
    from ..core.records import dumps

    if name not in _entries():
        raise _unknown(name)
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder, and a file is wanted", f"-o {os.path.join(path, 'model.onnx')}")
    if os.path.lexists(path) and not force:
        raise InputError(f"{path} is already there", "--force writes over it; or choose another name with -o")
    asked = {key: value for key, value in settings.items() if isinstance(value, int)}
    written = zoo.export(name, path, **asked) if name in zoo.names() else _copy(name, path, asked)
    if as_json:
        print(dumps({"network": name, "path": os.path.abspath(written), "bytes": os.path.getsize(written)}))
        return
    from ..report import format

    print(f"{name} written to {written} ({format.size(os.path.getsize(written))})")
    print(f"→ edgewise bench {written}", file=sys.stderr)


def _copy(name: str, path: str, asked: dict[str, int]) -> str:
    """A trained model is as it is."""
    import shutil

    from ..core.errors import InputError
    from ..zoo import pocket

    if asked:
        raise InputError(
            f"{name} is trained, so it has no {next(iter(asked))} to choose", f"edgewise zoo export {name}"
        )
    try:
        return shutil.copyfile(pocket.path(name), path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def _unknown(name: str) -> Exception:
    import difflib

    from ..core.errors import InputError

    near = difflib.get_close_matches(name, list(_entries()), 3, cutoff=0.5)
    meant = f"; the nearest: {', '.join(near)}" if near else ""
    return InputError(f"there is no built-in network {name!r}{meant}", "edgewise zoo")
