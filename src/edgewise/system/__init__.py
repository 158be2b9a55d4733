"""What this device is, what it is doing and what of it may be used; here the readers its files share.

A file that is missing, forbidden or malformed reads as None: kernels and containers hide what they like.
"""

from __future__ import annotations

from pathlib import Path

# Far above any kernel's CONFIG_NR_CPUS; a larger number in a list is damage, not a core.
_MOST_CORES = 65536


def text(path: Path) -> str | None:
    """The stripped text of a small file, None where it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip("\0 \t\r\n")
    except (OSError, ValueError):
        return None


def integer(written: str | None) -> int | None:
    """The integer that is written there, None where something else is."""
    try:
        value = int(written or "")
    except ValueError:
        return None
    # The kernel has no larger numbers, and floats have no room for them.
    return value if abs(value) < 2**64 else None


def number(path: Path) -> int | None:
    """The integer a file holds."""
    return integer(text(path))


def core_list(listed: str | None) -> tuple[int, ...]:
    """The cores of a kernel list such as "0-3,8"; nothing where any of it is malformed."""
    found: set[int] = set()
    try:
        for part in (listed or "").split(","):
            first, _, last = part.partition("-")
            low, high = int(first), int(last or first)
            if not 0 <= low <= high < _MOST_CORES:
                return ()
            found.update(range(low, high + 1))
    except ValueError:
        return ()
    return tuple(sorted(found))
