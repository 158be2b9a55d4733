"""From signatures to a command line: positional parameters are arguments, keyword-only ones are flags.

A command is a module with a function `run`; or, without one, with a function for each command of its own.
"""

from __future__ import annotations

import argparse
import inspect
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from .. import __version__
from ..core import registry


class Parser(argparse.ArgumentParser):
    """argparse, with the flags of one command in the order of its signature and no abbreviations to regret."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)


def build() -> argparse.ArgumentParser:
    parser = Parser(
        prog="edgewise",
        description="Find the fastest way to run your model on this device, know that it is true, and run it that way.",
    )
    parser.add_argument("--version", action="version", version=f"edgewise {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in registry.names("cli"):
        module = registry.find("cli", name, "command")
        if hasattr(module, "run"):
            _command(commands, name, module.run)
            continue
        text = inspect.cleandoc(module.__doc__ or "").partition(": ")[2]
        group = commands.add_parser(name, help=text.splitlines()[0], description=text)
        own = group.add_subparsers(metavar="COMMAND", required=True)
        for each, run in _functions(module).items():
            _command(own, each, run)
    return parser


def _command(commands: Any, name: str, run: Callable[..., Any]) -> None:
    text = inspect.cleandoc(run.__doc__ or "")
    command = commands.add_parser(name, help=text.splitlines()[0], description=text)
    _add(command, run)
    command.set_defaults(_run=run)


def _functions(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """Those that a module defines for others, in their order."""
    found = inspect.getmembers(module, inspect.isfunction)
    own = [(name, run) for name, run in found if run.__module__ == module.__name__ and not name.startswith("_")]
    return dict(sorted(own, key=lambda pair: pair[1].__code__.co_firstlineno))


def invoke(arguments: argparse.Namespace) -> int:
    """Call the chosen command; a command that returns a number has chosen its exit code."""
    values = {name: value for name, value in vars(arguments).items() if name != "_run"}
    run: Callable[..., int | None] = arguments._run
    positional = [
        values.pop(name)
        for name, parameter in inspect.signature(run).parameters.items()
        if parameter.kind is not parameter.KEYWORD_ONLY
    ]
    return run(*positional, **values) or 0


def _add(parser: argparse.ArgumentParser, run: Callable[..., Any]) -> None:
    hints = get_type_hints(run, include_extras=True)
    # Where nothing else can be meant, a flag takes several values at once: --models A B C.
    free = all(parameter.kind is parameter.KEYWORD_ONLY for parameter in inspect.signature(run).parameters.values())
    for name, parameter in inspect.signature(run).parameters.items():
        hint, text = hints[name], ""
        if get_origin(hint) is Annotated:
            hint, text = get_args(hint)
        if get_origin(hint) in (Union, types.UnionType):
            hint = next(kind for kind in get_args(hint) if kind is not type(None))
        # argparse takes a % for a format.
        text = text.replace("%", "%%")
        several = get_origin(hint) is tuple
        kind = get_args(hint)[0] if several else hint
        required = parameter.default is parameter.empty
        if parameter.kind is not parameter.KEYWORD_ONLY:
            many = {"nargs": "+" if required else "*"} if several else {} if required else {"nargs": "?"}
            default = {} if required else {"default": parameter.default}
            parser.add_argument(name, help=text, type=kind, metavar=name.upper(), **many, **default)  # type: ignore[arg-type]
            continue
        flag = "--" + name.rstrip("_").replace("_", "-")
        if kind is bool:
            parser.add_argument(flag, help=text, action="store_true", dest=name)
            continue
        parser.add_argument(
            *(("-o", flag) if name == "output" else (flag,)),
            help=text,
            type=kind,
            dest=name,
            metavar=name.rstrip("_").upper().replace("_", "-"),
            default=None if required else parameter.default,
            required=required,
            **({"action": Extend} if several else {}),  # type: ignore[arg-type]
            **({"nargs": "+"} if several and free else {}),
        )


class Extend(argparse.Action):
    """A flag that may be repeated; the first use replaces the default."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        already = getattr(namespace, self.dest)
        added = tuple(values) if isinstance(values, list) else (values,)
        setattr(namespace, self.dest, added if already is self.default else (*already, *added))
