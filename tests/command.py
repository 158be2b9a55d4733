"""`edgewise` as somebody types it, in this process: everything it starts is started, but no Python to start it from.

`tests/cli/test_commands.py` and `tests/study/test_kill.py` have it in a process of its own.
"""

from __future__ import annotations

import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from edgewise.cli import _main


def edgewise(*argv: str, cwd: Path | None = None, **environment: str) -> CompletedProcess[str]:
    """What came of it; an exception that is not one of edgewise's is the test's."""
    out, errors = StringIO(), StringIO()
    with (
        chdir(cwd or "."),
        patch.dict("os.environ", environment),
        patch.object(sys, "argv", ["edgewise", *argv]),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        try:
            code = _main(argv)
        except SystemExit as left:  # argparse
            code = int(left.code or 0)
    return CompletedProcess(argv, code, out.getvalue(), errors.getvalue())
