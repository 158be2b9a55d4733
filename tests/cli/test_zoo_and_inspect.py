"""`edgewise zoo` and `edgewise inspect`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from command import edgewise
from edgewise.core.preprocess import parse_preprocess
from edgewise.zoo import pocket
from edgewise.zoo.catalog import CATALOG


def test_every_network_is_listed_with_its_size_and_accuracy() -> None:
    done = edgewise("zoo")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.split()}
    assert set(CATALOG) <= set(lines)
    for part in ("resnet", "2015", "25.6 M", "4.09 G", "76.13 %", "92.86 %", "EmBench Table 1"):
        assert part in lines["resnet50"]


def test_the_list_as_json_has_the_papers() -> None:
    networks = json.loads(edgewise("zoo", "--json").stdout)["networks"]
    assert set(CATALOG) <= set(networks)
    assert networks["mobilenet_v2"]["paper"]["arxiv"] == "1801.04381"
    assert networks["mobilenet_v2"]["multiply_adds"] == CATALOG["mobilenet_v2"].multiply_adds


def test_the_trained_family_is_listed_and_copied(tmp_path: Path) -> None:
    if not Path(pocket.__file__).with_name("family.json").exists():
        pytest.skip("the pocket family has not been trained in this checkout")
    networks = json.loads(edgewise("zoo", "list", "pocket/*", "--json").stdout)["networks"]
    assert tuple(sorted(networks)) == tuple(sorted(pocket.names()))
    name = pocket.names()[0]
    refused = edgewise("zoo", "export", name, "-o", "p.onnx", "--classes", "3", cwd=tmp_path)
    assert refused.returncode == 2 and "is trained" in refused.stderr
    done = edgewise("zoo", "export", name, "-o", "p.onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.onnx").read_bytes() == Path(pocket.path(name)).read_bytes()


def test_a_pattern_chooses() -> None:
    networks = json.loads(edgewise("zoo", "list", "vgg*", "--json").stdout)["networks"]
    assert sorted(networks) == ["vgg11", "vgg13", "vgg16", "vgg19"]


def test_export_writes_what_was_asked_for(tmp_path: Path) -> None:
    done = edgewise(
        "zoo",
        "export",
        "squeezenet1_1",
        "-o",
        "s.onnx",
        "--batch",
        "8",
        "--size",
        "96",
        "--classes",
        "10",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "s.onnx" in done.stdout and "edgewise bench s.onnx" in done.stderr
    graph = onnx.load(tmp_path / "s.onnx").graph
    assert [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == [8, 3, 96, 96]
    assert [dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim] == [8, 10]


def test_export_never_overwrites_unasked(tmp_path: Path) -> None:
    (tmp_path / "tiny.onnx").write_text("precious")
    refused = edgewise("zoo", "export", "tiny", cwd=tmp_path)
    assert refused.returncode == 2 and "already there" in refused.stderr and "--force" in refused.stderr
    assert (tmp_path / "tiny.onnx").read_text() == "precious"
    done = edgewise("zoo", "export", "tiny", "--force", "--seed", "3", "--json", cwd=tmp_path)
    assert Path(json.loads(done.stdout)["path"]) == (tmp_path / "tiny.onnx").resolve()
    onnx.checker.check_model(str(tmp_path / "tiny.onnx"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("zoo", "export", "resnt50"), "resnet50"),
        (("zoo", "list", "nothing-like-it"), "there is no built-in network"),
        (("zoo", "export"), "needs the name"),
        (("zoo", "resnet50"), "edgewise zoo export resnet50"),
        (("zoo", "--batch", "8"), "--batch is for export"),
        (("zoo", "export", "tiny", "-o", "."), "is a folder"),
        (("zoo", "export", "tiny", "-o", "no/such/folder.onnx"), "cannot be written"),
        (("zoo", "export", "tiny", "--batch", "0"), "at least 1"),
        (("zoo", "export", "vgg16", "--size", "1500"), "an ONNX file holds"),
    ],
)
def test_mistakes_are_answered(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = edgewise(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_inspect_shows_a_file(tiny_onnx: Path) -> None:
    done = edgewise("inspect", str(tiny_onnx))
    assert done.returncode == 0, done.stderr
    for part in ("tiny", "opset 17", "1x3x32x32", "1x10", "1.75 M", "Conv", "Gemm", "share"):
        assert part in done.stdout


def test_inspect_takes_a_built_in_name_and_a_batch() -> None:
    done = edgewise("inspect", "squeezenet1_1", "--batch", "4", "--json")
    said = json.loads(done.stdout)
    assert said["totals"]["multiply_adds"] == 4 * CATALOG["squeezenet1_1"].multiply_adds
    assert said["cost"]["outputs"][0]["shape"] == [4, 1000]
    assert sum(node["flops"] for node in said["cost"]["nodes"]) == said["totals"]["flops"]


def test_long_tables_are_cut_and_say_how_to_see_all() -> None:
    short = edgewise("inspect", "squeezenet1_1").stdout
    whole = edgewise("inspect", "squeezenet1_1", "--all").stdout
    assert "--all" in short and "--all" not in whole
    assert len(whole.splitlines()) > len(short.splitlines()) + 40


def test_inspect_wants_open_sizes_named(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    kind, shape = onnx.TensorProto.FLOAT, ["n", 3, "h", "w"]
    made = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [onnx.helper.make_tensor_value_info("x", kind, shape)],
        [onnx.helper.make_tensor_value_info("y", kind, shape)],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opsets, ir_version=8), path)
    refused = edgewise("inspect", str(path))
    assert refused.returncode == 2 and "--shape x=" in refused.stderr
    done = edgewise("inspect", str(path), "--shape", "x=1x3x64x32", "--json")
    assert json.loads(done.stdout)["totals"]["flops"] == 3 * 64 * 32


def test_what_cannot_be_counted_is_said(tmp_path: Path) -> None:
    path = tmp_path / "riddle.onnx"
    kind = onnx.TensorProto.FLOAT
    made = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Relu", ["x"], ["h"]),
            onnx.helper.make_node("Riddle", ["h"], ["y"], domain="org.example"),
        ],
        "riddle",
        [onnx.helper.make_tensor_value_info("x", kind, [1, 4])],
        [onnx.helper.make_tensor_value_info("y", kind, [1, 4])],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("org.example", 1)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opsets, ir_version=8), path)
    done = edgewise("inspect", str(path))
    assert done.returncode == 0, done.stderr
    assert "n/a" in done.stdout and "not in the sums: it is defined by org.example" in done.stdout


def test_inspect_says_how_images_are_prepared(tmp_path: Path, tiny_onnx: Path) -> None:
    model = onnx.load(tiny_onnx)
    onnx.helper.set_model_props(model, {"preprocess": "imagenet(resize=40, crop=32)"})
    onnx.save(model, tmp_path / "m.onnx")
    assert str(parse_preprocess("imagenet(resize=40, crop=32)")) in edgewise("inspect", str(tmp_path / "m.onnx")).stdout


@pytest.mark.parametrize(
    ("name", "content", "code", "said"),
    [
        ("m.tflite", b"TFL3", 4, "engine's own format"),
        ("m.onnx", b"not a model", 2, "is not an ONNX file"),
        ("m.onnx", b"", 2, "is empty"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: bytes, code: int, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = edgewise("inspect", str(tmp_path / name))
    assert done.returncode == code
    assert said in done.stderr and "Traceback" not in done.stderr
