"""Commands with commands of their own, and flags that take several values."""

from __future__ import annotations

import types

import pytest

from edgewise.cli import _main, _parser


def test_a_flag_takes_several_values_where_nothing_else_can_be_meant() -> None:
    parser = _parser.build()
    found = parser.parse_args(["select", "fit", "--models", "a", "b", "--on", "ort", "--models", "c"])
    assert (found.models, found.on) == (("a", "b", "c"), ("ort",))
    found = parser.parse_args(["bench", "--on", "ort", "model.onnx", "--on", "openvino"])
    assert (found.models, found.on) == (["model.onnx"], ("ort", "openvino"))


def test_help_of_a_group_and_of_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["select", "--help"], ["select", "fit", "--help"]):
        with pytest.raises(SystemExit) as left:
            _main(argv)
        assert left.value.code == 0
        out = capsys.readouterr().out
        assert "fit" in out
    assert "--max-loss" in out


@pytest.mark.parametrize("argv", [["select"], ["select", "nothing"], ["select", "fit"]])
def test_what_is_missing_is_said(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        _main(argv)
    assert left.value.code == 2
    assert "usage: edgewise select" in capsys.readouterr().err


def test_commands_are_those_a_module_defines_in_their_order() -> None:
    module = types.ModuleType("commands")
    source = "from inspect import cleandoc\ndef second(): ...\ndef first(): ...\ndef _own(): ..."
    # A module as a command's would be: what it imports, and what is its own, is no command.
    code = compile(source, "commands", "exec")
    types.FunctionType(code, module.__dict__)()
    assert list(_parser._functions(module)) == ["second", "first"]
