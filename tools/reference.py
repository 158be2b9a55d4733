"""Write docs/reference from the code, or with --check say whether it is up to date."""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

from edgewise.cli import _parser
from edgewise.core import errors, registry
from edgewise.select import methods

ROOT = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make docs` from the code: change it there. -->\n"


def _commands(parser: argparse.ArgumentParser, prefix: str = "") -> dict[str, argparse.ArgumentParser]:
    """By name, those of a command that has commands of its own in its place: `select fit`."""
    subparsers = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
    if subparsers is None:
        return {prefix: parser}
    found = {}
    for name, each in subparsers.choices.items():
        found |= _commands(each, f"{prefix} {name}".strip())
    return found


def commands() -> str:
    """Drawn from the parser's own records, since its help is laid out differently by every version of Python."""
    parts = [NOTE, "# Commands\n"]
    for name, parser in _commands(_parser.build()).items():
        arguments = [a for a in parser._actions if not a.option_strings]
        words = " ".join(f"{a.dest.upper()}{' ...' if a.nargs in ('+', '*') else ''}" for a in arguments)
        parts += [f"## edgewise {name} {words}\n", f"{parser.description}\n", "| | | default |", "|---|---|---|"]
        for action in parser._actions:
            if "--help" in action.option_strings:
                continue
            flag = action.option_strings[0] if action.option_strings else action.dest.upper()
            default = action.default
            shown = (
                "" if default in (None, (), False) else ", ".join(default) if isinstance(default, tuple) else default
            )
            parts.append(f"| `{flag}` | {(action.help or '').replace('%%', '%')} | {shown} |")
        parts.append("")
    return "\n".join(parts)


def exit_codes() -> str:
    rows = [f"| {kind.exit_code} | {name} |" for name, kind in errors.BY_NAME.items()]
    text = (errors.__doc__ or "").strip()
    return "\n".join(
        [NOTE, "# Errors and exit codes\n", f"```\n{text}\n```\n", "| exit code | error |", "|---|---|", *rows, ""]
    )


def text_forms() -> str:
    from edgewise.core import text

    forms = (text.__doc__ or "").strip()
    engines = [f"## {n}\n\n```\n{registry.find('engines', n).__doc__}```\n" for n in registry.names("engines")]
    return "\n".join(
        [
            NOTE,
            "# Text forms\n",
            f"```\n{forms}\n```\n",
            "# Methods of `select fit` and their options\n",
            *(_method(name) for name in registry.names(methods.PACKAGE)),
            "# Engines and their options\n",
            *engines,
        ]
    )


def _method(name: str) -> str:
    module = registry.find(methods.PACKAGE, name)
    taken = ", ".join(
        f"{key}={'…' if each.default is None else each.default}" for key, each in methods.options(module).items()
    )
    about = inspect.cleandoc(module.fit.__doc__ or "")
    return f"## {name}\n\n```\n{f'{name}({taken})' if taken else name}\n\n{about}\n```\n"


PAGES = {"commands.md": commands, "errors.md": exit_codes, "targets.md": text_forms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        page, content = ROOT / name, make()
        if check and (not page.exists() or page.read_text(encoding="utf-8") != content):
            stale.append(name)
        elif not check:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(content, encoding="utf-8")
    if stale:
        sys.exit(f"docs/reference is out of date ({', '.join(stale)}): run `make docs`")


if __name__ == "__main__":
    main()
