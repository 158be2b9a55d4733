"""One file per command: parse, call, draw. The signature of a command's `run` is its command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

NOT_PLUGINS = ()


def main(argv: Sequence[str] | None = None) -> None:
    """The `edgewise` command."""
    sys.exit(_main(sys.argv[1:] if argv is None else argv))


def _main(argv: Sequence[str]) -> int:
    from ..core.errors import EdgewiseError
    from ._parser import build, invoke

    try:
        return invoke(build().parse_args(argv))
    except EdgewiseError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # `edgewise show | head`: the reader has seen enough.
        sys.stderr.close()
        return 0
