"""The chips to simulate: by name, all of them, or from a user's own file."""

from __future__ import annotations

from .. import reference
from ..core.errors import InputError, Unsupported
from ..parallel.simulate import soc
from ..parallel.simulate.soc import Soc

ALL = "all"
# More than any chip has figures; a file above it is something else.
_LARGEST_BYTES = 1 << 20


def chips(name: str) -> list[Soc]:
    """A name, `all` that something was published of, or a file that ends in .toml."""
    if name == ALL:
        return [chip for chip in map(soc.named, soc.names()) if chip.published]
    if name.endswith(".toml"):
        return [_file(name)]
    if name not in soc.names():
        _check_drawn(name)
    return [soc.named(name)]


def _check_drawn(name: str) -> None:
    """Chips that were measured and published, but not as figures of what their processors do alone."""
    table = reference.table("pitfalls-devices")
    for row in table.records():
        if str(row["soc"]).replace(" ", "").casefold() == name.replace(" ", "").casefold():
            raise Unsupported(
                f"the {row['soc']} ({row['device']}: {row['processors']}) cannot be simulated: what its processors do "
                f"alone was published as a drawing only ({table.paper.authors} {table.paper.year})",
                "write its figures into a file: edgewise simulate --soc FILE.toml; docs/guides/simulate.md shows one",
            )


def _file(path: str) -> Soc:
    try:
        with open(path, "rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
        if len(raw) > _LARGEST_BYTES:
            raise InputError(f"{path} has more than {_LARGEST_BYTES:,} bytes: it describes no chip")
        return soc.read(raw.decode(), path, path)
    except OSError as error:
        raise InputError(f"the chip {path} cannot be read: {error.strerror}", "edgewise simulate") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not TOML: it is no text") from None
