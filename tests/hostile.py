"""Model files nobody should have to survive: `corpus(folder)` writes them, the same ones each time.

Some are only unusual and load well somewhere; those called control_* are valid and must run everywhere.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
IMAGE = (1, 3, 8, 8)
File = tuple[str, bytes]


def corpus(folder: Path, seed: int = 0) -> list[tuple[str, Path]]:
    """Write every file below `folder`, and say where."""
    random = np.random.default_rng(seed)
    found = []
    sources = (_controls(), _damaged(random), _operators(), _graphs(), _tensors(), _protos(), _nested())
    for name, content in (file for source in sources for file in source):
        path = folder / f"{name}.onnx"
        path.write_bytes(content)
        found.append((name, path))
    return [*found, *_external(folder), *_not_files(folder)]


def _value(name: str, shape: Any = IMAGE, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _weight(name: str, *shape: int) -> onnx.TensorProto:
    noise = np.random.default_rng(sum(name.encode())).standard_normal(shape)
    return numpy_helper.from_array((noise / 4).astype(np.float32), name)


def _ints(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def _node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """Inputs and outputs are names with spaces between; "-" is an omitted one."""
    sides = (["" if name == "-" else name for name in side.split()] for side in (inputs, outputs))
    return helper.make_node(kind, *sides, name=f"{kind}_{outputs.partition(' ')[0]}", **attributes)


def _model(*nodes: Any, weights: Any = (), inputs: Any = None, outputs: Any = None, **options: Any) -> Any:
    """Image in, `y` out unless told otherwise; `y` has a shape, lest its lack alone be what is refused."""
    inputs = [_value("x")] if inputs is None else inputs
    outputs = [_value("y", list("pqrs")[: options.pop("rank", 4)])] if outputs is None else outputs
    graph = helper.make_graph(nodes, "hostile", inputs, outputs, weights)
    imports = [helper.make_opsetid("", 17), *options.pop("imports", ())]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, **options)


def _bytes(model: Any) -> bytes:
    return bytes(model.SerializeToString())


def _conv_weights() -> list[onnx.TensorProto]:
    return [_weight("w", 4, 3, 3, 3), _weight("b", 4)]


def _network() -> Any:
    nodes = (
        _node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        _node("Relu", "c", "r"),
        _node("GlobalAveragePool", "r", "g"),
        _node("Flatten", "g", "f"),
        _node("Gemm", "f m", "y", transB=1),
    )
    weights = [*_conv_weights(), _weight("m", 5, 4)]
    return _model(*nodes, weights=weights, inputs=[_value("x", ["batch", 3, 8, 8])], rank=2)


def _perceptron() -> Any:
    nodes = _node("MatMul", "x w", "h"), _node("Tanh", "h", "t"), _node("Softmax", "t", "y", axis=1)
    return _model(*nodes, weights=[_weight("w", 6, 4)], inputs=[_value("x", (2, 6))], rank=2)


def _controls() -> Iterator[File]:
    yield "control_network", _bytes(_network())
    yield "control_perceptron", _bytes(_perceptron())
    yield "control_conv", _bytes(_model(_node("Conv", "x w b"), weights=_conv_weights()))
    yield "control_constant", _bytes(_model(_node("Add", "x w"), weights=[_weight("w", 8)]))


def _damaged(random: np.random.Generator) -> Iterator[File]:
    for base, model in (("network", _network()), ("perceptron", _perceptron())):
        content = _bytes(model)
        for i in range(50):
            damaged = bytearray(content)
            for at in random.integers(0, len(content), 1 + i % 8):
                damaged[at] ^= int(random.integers(1, 256))
            yield f"mutated_{base}_{i:02}", bytes(damaged)
        for i, at in enumerate(np.linspace(4, len(content) - 1, 20).astype(int)):
            yield f"truncated_{base}_{i:02}_at_{at}", content[:at]
        for i in range(8):
            at, size = random.integers(0, len(content) - 16), int(random.integers(1, 16))
            yield f"removed_{base}_{i}", content[:at] + content[at + size :]
            yield f"inserted_{base}_{i}", content[:at] + random.bytes(size) + content[at:]
        yield f"twice_{base}", content + content
        yield f"trailing_{base}", content + random.bytes(64)
        yield f"reversed_{base}", content[::-1]
    for size in (1, 2, 7, 64, 1000, 4096, 65536, 1 << 20):
        yield f"random_bytes_{size}", random.bytes(size)
        yield f"same_byte_{size}", b"\xff" * size
    yield "empty", b""
    yield "text", b"This is not a model.\n" * 40
    yield "json", b'{"graph": {"node": []}}'
    yield "html", b"<!doctype html><title>404</title>"
    yield "git_lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 102400\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("model.onnx"), _bytes(_network()))
    yield "zip", packed.getvalue()
    yield "pickle", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."
    # Field 7 (the graph), with a length that is not there.
    for name, length in (("2gb", 2**31), ("4gb", 2**32 - 1), ("2_63", 2**63), ("endless", 2**70)):
        yield f"graph_claims_{name}", b"\x08\x08\x3a" + _varint(length) + b"\0" * 32


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


# Operator and inputs ("-": omitted), then attributes; the weights are those of `_operators`.
ATTRIBUTES = """
Conv x w b: group=0; group=2; group=-1; group=2**62; group='three'; strides=[0,0]; strides=2
Conv x w b: strides=[2**40,2**40]; strides=[-1,1]; strides=[1.5,2.5]; dilations=[0,0]; dilations=[2**40,1]
Conv x w b: kernel_shape=[99,99]; kernel_shape=[0,0]; kernel_shape=[-3,3]; kernel_shape=[3]
Conv x w b: pads=[1,1,1]; pads=[-9]*4; pads=[2**40]*4; pads=['a']*4; kernel_shape=[3]*5; frobnicate=3
Conv x w b: auto_pad='MAYBE'; domain='com.example'
MaxPool x: ; kernel_shape=[0,0]; kernel_shape=[2**31]*2; kernel_shape=[2,2],strides=[0,0]
MaxPool x: kernel_shape=[2,2],pads=[7]*4; kernel_shape=[2,2],ceil_mode=9; kernel_shape=[2,2],dilations=[0,0]
ConvTranspose x s: ; strides=[0,0]; output_shape=[2**40]*2; output_padding=[99,99]
Transpose x: perm=[0,0,1,2]; perm=[0,1,2,9]; perm=[0]; perm=[-1]*4
Cast x: ; to=0; to=999; to=8; to='float'
DepthToSpace x: ; blocksize=0; blocksize=5; blocksize=-2; blocksize=2**40
LRN x: ; size=0; size=2**40; size=-3
Softmax x: axis=-77; axis='one'; axis=[1]
Concat x x: ; axis=17; axis=-2**63
Gather x i: axis=99
ReduceMean x: axes=[9]; axes=[1,1]; axes='all'
Einsum x x: ; equation='->,,...ij..k->'; equation='abcd->e'; equation=''
RandomNormal: shape=[2**40,2**40]; shape=[-1]
Pad x sizes: mode='sideways'; mode='reflect'
TopK x i: axis=50
"""
# Operators whose second input is a list of integers.
LISTS = """
Gather: [10**6]; [-2**62]; []
Reshape: [-1,-1]; [-2,4]; [7,11]; []; [2**33,2**31,192]; [1,1,1,1,0]
Split: [5,5]; [-1,4]; []
Squeeze: [2]; [9]; [0,0]
Unsqueeze: [40]; [1,1]
Pad: [0,0,-9,-9]*2; [1,2,3]; [0,0,0,2**40]*2
TopK: [2**50]; [-5]; [1,2]
Expand: [2**40,3,8,8]; [-3,8]; [5,5,5]
Tile: [2**20,2**20,1,1]; [-1,1,1,1]; [2]
Slice: [0]; [2**63-1]
ReduceSum: [7]; [1,1]
"""
WIRED = """
Conv; Conv x; Conv - - -; Conv x nowhere; Conv x w b x w b x w b x; Conv x b; Conv x s; Conv x i; Conv x w l
Conv x v; Concat; MatMul x w; Gemm x x; Add x l; BatchNormalization x s s s s; Resize x; Relu y; Relu x x x
Constant; If x; Loop x; Scan x; Frobnicate x; ../../../etc/passwd x; %s%n{0} x; Adagrad x x x x; LSTM x x x
Range zero huge one; OneHot i huge i; Resize x - - sizes; ConstantOfShape sizes; ConstantOfShape huge
Slice x zero one one zero; Slice x i i i minus; Slice x minus i; GatherND x i; ScatterND x i x; Expand x huge
"""
# A weight is float32 of shape [8] unless said otherwise (1: float32, 8: string, 14: complex64, 22: int4).
TENSORS = """
; raw_data=bytes(31); raw_data=bytes(3200); raw_data=bytes(32),float_data=[1.0]*8; int64_data=[1]*8
dims=[2**29],raw_data=bytes(32); dims=[2**29],float_data=[1.0]; dims=[2**60],raw_data=bytes(32)
dims=[2**32,2**32,8],raw_data=bytes(32); dims=[-8],raw_data=bytes(32); dims=[0],raw_data=bytes(32)
dims=[1]*5000,raw_data=bytes(4); data_type=0,raw_data=bytes(32); data_type=999,raw_data=bytes(32)
data_type=8,string_data=[bytes(9)]*8; data_type=8,raw_data=bytes(8); data_type=14,raw_data=bytes(64)
data_type=22,dims=[7],raw_data=bytes(1); raw_data=bytes(32),segment={'begin':5,'end':2}
"""


def _operators() -> Iterator[File]:
    weights = [*_conv_weights(), _weight("s"), _weight("l", 99), _weight("v", 4, 5, 3, 3), _ints("i", 1, 2)]
    weights += [_ints("sizes", 1, 3, 2**24, 2**24), _ints("minus", -(2**63), -1)]
    weights += [helper.make_tensor(n, INT64, (), [v]) for n, v in (("zero", 0), ("huge", 2**40), ("one", 1))]
    for head, row in _rows(ATTRIBUTES):
        kind, _, inputs = head.partition(" ")
        node = _node(kind, inputs, **eval(f"dict({row})"))
        yield _slug(f"{kind} with {row or 'nothing'}"), _bytes(_model(node, weights=weights))
    for kind, row in _rows(LISTS):
        node = _node(kind, "x i")
        yield _slug(f"{kind} by {row}"), _bytes(_model(node, weights=[_ints("i", *eval(row))]))
    for line in re.split("[;\n]", WIRED.strip()):
        kind, _, inputs = line.strip().partition(" ")
        rank = {"Range": 1, "OneHot": 2}.get(kind, 4)
        omitted = inputs.replace("-", "omitted") or "nothing"
        yield _slug(f"{kind} of {omitted}"), _bytes(_model(_node(kind, inputs), weights=weights, rank=rank))


def _rows(table: str) -> Iterator[tuple[str, str]]:
    for line in table.strip().splitlines():
        head, _, rows = line.partition(":")
        yield from ((head, row.strip()) for row in rows.split(";"))


def _slug(text: str) -> str:
    for sign, word in {"[]": "none", "**": "to", "*": "times", "-": "minus", "%": "percent", "..": "up"}.items():
        text = text.replace(sign, f" {word} ")
    return "_".join(re.findall(r"\w+", text.lower()))


def _graphs() -> Iterator[File]:
    relu = _node("Relu", "x")
    doubling = [_node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=1) for i in range(60)]
    chain = [_node("Relu", f"v{i}", f"v{i + 1}") for i in range(20_000)]
    ring = [_node("Relu", f"v{i}", f"v{(i + 1) % 1000}") for i in range(1000)]
    models: dict[str, Any] = {
        "cycle_of_two": _model(_node("Add", "x b", "a"), _node("Relu", "a", "b"), _node("Relu", "a")),
        "cycle_of_thousand": _model(*ring, outputs=[_value("v7")]),
        "nodes_20000": _model(*chain, inputs=[_value("v0")], outputs=[_value("v20000")]),
        "concat_doubling_bomb": _model(*doubling, inputs=[_value("v0")], outputs=[_value("v60", (1, "c", 8, 8))]),
        "out_of_order": _model(_node("Tanh", "a"), _node("Relu", "x", "a")),
        "value_made_twice": _model(relu, _node("Tanh", "x")),
        "node_names_twice": _model(*(helper.make_node("Relu", [a], [b], "same") for a, b in ("xa", "ay"))),
        "output_is_input": _model(_node("Relu", "x", "x"), outputs=[_value("x")]),
        "weight_named_as_input": _model(_node("Add", "x x"), weights=[_weight("x", 3)]),
        "weight_named_as_output": _model(relu, weights=[_weight("y", 3)]),
        "weights_twice": _model(_node("Add", "x w"), weights=[_weight("w", 8), _weight("w", 1)]),
        "inputs_twice": _model(relu, inputs=[_value("x"), _value("x", (3,))]),
        "outputs_twice": _model(relu, outputs=[_value("y"), _value("y")]),
        "output_undefined": _model(relu, outputs=[_value("y"), _value("nowhere")]),
        "output_shape_lies": _model(relu, outputs=[_value("y", (9, 9))]),
        "output_type_lies": _model(relu, outputs=[_value("y", IMAGE, INT64)]),
        "no_inputs": _model(relu, inputs=[]),
        "no_outputs": _model(relu, outputs=[]),
        "no_nodes": _model(),
        "no_names": _model(_node("Relu", "-", "-"), inputs=[_value("")], outputs=[_value("")]),
        "only_weights": _model(outputs=[_value("w", (3,))], inputs=[], weights=[_weight("w", 3)]),
        "unused_huge_input": _model(relu, inputs=[_value("x"), _value("unused", (2**20, 2**20))]),
        "doc_string_of_4_mb": _model(relu, doc_string="d" * 2**22),
        "name_of_1_mb": _model(_node("Relu", "x" * 2**20), inputs=[_value("x" * 2**20)]),
    }
    shapes: dict[str, Any] = {
        "huge": (1, 3, 2**40, 2**40), "largest": (2**63 - 1,), "overflows": (2**32, 2**32, 1, 1),
        "zero_mod_2_64": (2**16,) * 4, "no_channels": (1, 0, 8, 8), "zeros": (0,) * 4, "unknown_rank": None,
        "negative": (1, 3, -8, 8), "symbolic": ("n", "c", "h", "w"), "unknown_dimensions": (None,) * 4,
        "one_symbol": ("n",) * 4,
        "rank_1000": (1,) * 1000, "long_symbol": ("s" * 100_000, 3, 8, 8),
        "scalar": (), "expression": ("batch*2-1", 3, "h//2", ""),
    }  # fmt: skip
    for name, shape in shapes.items():
        models[f"shape_{name}"] = _model(relu, inputs=[_value("x", shape)])
        conv = _node("Conv", "x w b")
        models[f"shape_conv_{name}"] = _model(conv, weights=_conv_weights(), inputs=[_value("x", shape)])
    yield from ((name, _bytes(model)) for name, model in models.items())


def _tensors() -> Iterator[File]:
    for row in re.split("[;\n]", TENSORS.strip()):
        tensor = TensorProto(**{"name": "w", "data_type": FLOAT, "dims": [8], **eval(f"dict({row})")})
        yield _slug(f"weight with {row or 'nothing'}"), _bytes(_model(_node("Add", "x w"), weights=[tensor]))
    for name, value in (("nan", np.nan), ("infinite", np.inf), ("denormal", 1e-42)):
        content = np.full((4, 3, 3, 3), value, np.float32)
        model = _model(_node("Conv", "x w"), weights=[numpy_helper.from_array(content, "w")])
        yield f"weight_{name}", _bytes(model)
    for name, index in (("sparse", 3), ("sparse_out_of_range", 10**12), ("sparse_negative", -1)):
        model = _model(_node("Add", "x w"))
        values, indices = helper.make_tensor("w", FLOAT, [1], [2.5]), _ints("", index)
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [8]))
        yield f"weight_{name}", _bytes(model)
    for name, kind in (
        ("string", STRING),
        ("undefined", 0),
        ("type_77", 77),
        ("float8", TensorProto.FLOAT8E4M3FN),
    ):
        yield f"input_of_{name}", _bytes(_model(_node("Identity", "x"), inputs=[_value("x", (3,), kind)]))
    sequence = helper.make_tensor_sequence_value_info("x", FLOAT, None)
    yield "input_sequence", _bytes(_model(_node("SequenceLength", "x"), inputs=[sequence]))


def _protos() -> Iterator[File]:
    model = _network()
    yield "tensor_instead_of_model", _bytes(_weight("w", 64))
    yield "graph_instead_of_model", _bytes(model.graph)
    yield "node_instead_of_model", _bytes(model.graph.node[0])
    yield "model_without_graph", _bytes(onnx.ModelProto(ir_version=8, opset_import=model.opset_import))
    for ir_version, imports in (
        *((8, [("", opset)]) for opset in (0, 1, -5, 9999)), *((ir, [("", 17)]) for ir in (0, 1, -1, 2**40)),
        (8, []), (8, [("", 7), ("", 17)]), (8, [("com.example", 1)]), (8, [("", 17), ("ai.onnx.ml", 9999)]),
    ):  # fmt: skip
        opsets = [helper.make_opsetid(*each) for each in imports]
        changed = onnx.ModelProto(ir_version=ir_version, graph=model.graph, opset_import=opsets)
        yield _slug(f"ir {ir_version} opsets {imports}"), _bytes(changed)
    texts = {
        "not_utf8": b"\xff\xfe\xc0\x80\xed\xa0",
        "nul": b"a\0b\0c\0",
        "ansi": b"\x1b[2J\r\n",
        "dots": b"../../",
    }
    for name, text in texts.items():
        named = _bytes(_model(_node("Relu", "placed"), inputs=[_value("placed")]))
        yield f"name_{name}", named.replace(b"placed", text)
        yield f"operator_{name}", _bytes(_model(_node("Placed", "x"))).replace(b"Placed", text)
    for name, attribute in {
        "reference_outside": AttributeProto(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="nowhere"),
        "type_lies": AttributeProto(name="alpha", type=AttributeProto.GRAPH, f=1.0),
        "type_missing": AttributeProto(name="alpha", f=1.0),
        "unnamed": AttributeProto(type=AttributeProto.FLOAT, f=1.0),
    }.items():
        leaky = _model(_node("LeakyRelu", "x"))
        leaky.graph.node[0].attribute.append(attribute)
        yield f"attribute_{name}", _bytes(leaky)


def _functions(*calls: tuple[str, str, int]) -> bytes:
    """Local functions: (name, what it calls, how often). The graph calls the first."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    bodies = []
    for name, called, times in calls:
        domain = "" if called == "Relu" else "local"
        steps = [_node(called, f"v{i}", f"v{i + 1}", domain=domain) for i in range(times)]
        bodies.append(helper.make_function("local", name, ["v0"], [f"v{times}"], steps, opsets))
    return _bytes(_model(_node(calls[0][0], "x", domain="local"), functions=bodies, imports=opsets[1:]))


def _nested() -> Iterator[File]:
    yield "function_calls_itself", _functions(("f", "f", 1))
    yield "functions_call_each_other", _functions(("f", "g", 1), ("g", "f", 1))
    yield "function_missing", _functions(("f", "nowhere", 1))
    yield "functions_same_name", _functions(("f", "Relu", 1), ("f", "Relu", 2))
    laughs = [(f"f{i}", f"f{i + 1}", 10) for i in range(12)]
    yield "functions_billion_laughs", _functions(*laughs, ("f12", "Relu", 10))
    truth = numpy_helper.from_array(np.array(True), "truth")
    leaf = helper.make_graph([_node("Relu", "x", "leaf")], "leaf", [], [_value("leaf")])
    inner = leaf
    for depth in range(1, 31):
        branch = _node("If", "truth", f"y{depth}", then_branch=inner, else_branch=leaf)
        inner = helper.make_graph([branch], f"depth{depth}", [], [_value(f"y{depth}")])
        if depth in (5, 15, 30):
            last = [_value(f"y{depth}")]
            yield f"if_nested_{depth}", _bytes(_model(branch, weights=[truth], outputs=last))
    # Past what protobuf lets a message nest, so written by hand: graph (6) in attribute (5) in node (1).
    deep = b""
    for _ in range(3000):
        deep = _field(1, _field(4, b"If") + _field(5, _field(1, b"then_branch") + _field(6, deep)))
    yield "if_nested_3000", b"\x08\x08" + _field(7, deep)
    states = [_value("i", (), INT64), _value("go", (), TensorProto.BOOL), _value("u")]
    steps = [_node("Identity", "go", "on"), _node("Tanh", "u", "v")]
    for name, trips, kept in (("of_2_62", 2**62, "v"), ("negative", -1, "v"), ("undefined", 5, "nowhere")):
        ends = [_value("on", (), TensorProto.BOOL), _value(kept)]
        body = helper.make_graph(steps, "body", states, ends)
        weights = [truth, helper.make_tensor("trips", INT64, (), [trips])]
        yield f"loop_{name}", _bytes(_model(_node("Loop", "trips truth x", body=body), weights=weights))
        yield f"loop_forever_{name}", _bytes(_model(_node("Loop", "- truth x", body=body), weights=weights))


def _external(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name, location, offset, length; each in a folder of its own, since that is what they try to leave."""
    (folder / "outside.bin").write_bytes(bytes(32))
    rows = (
        "missing nowhere.bin", "absolute /etc/passwd", "escape ../outside.bin", "twice a/../../outside.bin",
        "symlink link.bin", "folder .", "device /dev/zero", "backslashes ..\\outside.bin", "no_location",
        "url http://127.0.0.1:9/w.bin", f"long {'w' * 70_000}", "nul w.bin\0.txt",
        "itself external_itself.onnx", "offset_past_end w.bin 4096", "offset_negative w.bin -8",
        f"offset_huge w.bin {2**64}", "length_short w.bin 0 8", "length_text w.bin 0 many",
        "length_negative w.bin 0 -1", f"length_2gb w.bin 0 {2**31}",
        *(f"in_{part} ../outside.bin" for part in ("constant", "function", "sparse")),
    )  # fmt: skip
    for name, *entry in map(str.split, rows):
        place = folder / f"external_{name}"
        place.mkdir(exist_ok=True)
        (place / "w.bin").write_bytes(bytes(32))
        if name == "symlink" and not (place / "link.bin").is_symlink():
            (place / "link.bin").symlink_to("../outside.bin")
        tensor = TensorProto(name="w", data_type=FLOAT, dims=[8], data_location=TensorProto.EXTERNAL)
        for key, value in zip(("location", "offset", "length"), entry, strict=False):
            tensor.external_data.add(key=key, value=value)
        path = place / f"external_{name}.onnx"
        path.write_bytes(_bytes(_hiding(tensor, name)))
        yield f"external_{name}", path


def _hiding(tensor: onnx.TensorProto, where: str) -> Any:
    """A model that uses `tensor`: as an initializer, or where fewer look for it."""
    constant, add = _node("Constant", "", "w", value=tensor), _node("Add", "x w")
    if where == "in_constant":
        return _model(constant, add)
    if where == "in_function":
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
        body = helper.make_function("local", "f", ["x"], ["y"], [constant, add], opsets)
        return _model(_node("f", "x", domain="local"), functions=[body], imports=opsets[1:])
    model = _model(add, weights=[] if where == "in_sparse" else [tensor])
    if where == "in_sparse":
        model.graph.sparse_initializer.add(values=tensor, indices=_ints("", *range(8)), dims=[8])
    return model


def _not_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """What only looks like a file; reading the pipe or the device would never end."""
    names = ("directory", "pipe", "dangling", "loop", "endless", "absent")
    places = {name: folder / f"{name}.onnx" for name in names}
    places["directory"].mkdir(exist_ok=True)
    if not places["pipe"].exists():
        os.mkfifo(places["pipe"])
        places["dangling"].symlink_to("nowhere.onnx")
        places["loop"].symlink_to("loop.onnx")
        places["endless"].symlink_to("/dev/zero")
    yield from places.items()
