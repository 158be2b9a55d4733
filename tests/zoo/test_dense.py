"""Transformers, detectors, poses and styles of the zoo: as large as published, and alive on any batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from outline import draw_outlines, multiply_adds, parameters

from edgewise import zoo
from edgewise.core.errors import InputError
from edgewise.core.preprocess import parse_preprocess
from edgewise.zoo.catalog import CATALOG

# A size that is quick and that every layer can do with, and what comes out at it for one image.
OUTPUTS: dict[str, tuple[int, dict[str, tuple[int, ...]]]] = {
    "vit_tiny_patch16": (64, {"logits": (1000,)}),
    "vit_small_patch16": (64, {"logits": (1000,)}),
    "mobilevit_xxs": (64, {"logits": (1000,)}),
    "mobilevit_xs": (64, {"logits": (1000,)}),
    "mobilevit_s": (64, {"logits": (1000,)}),
    "yolov2": (64, {"map": (125, 2, 2)}),
    "tiny_yolov2": (64, {"map": (125, 2, 2)}),
    "yolo_anchor_free_n": (128, {"boxes": (336, 4), "scores": (336, 80)}),
    "posenet": (
        65,
        {
            "heatmaps": (17, 5, 5),
            "offsets": (34, 5, 5),
            "displacements_forward": (32, 5, 5),
            "displacements_backward": (32, 5, 5),
        },
    ),
    "fast_style_transfer": (32, {"image": (3, 32, 32)}),
    "retinaface_mobilenet025": (64, {"boxes": (168, 4), "scores": (168, 2), "landmarks": (168, 10)}),
}

# Millions of parameters, and of multiply-adds where they are published too, with who published them.
PUBLISHED = {
    "vit_tiny_patch16": (5.72, 1260, "timm, deit_tiny_patch16_224"),
    "vit_small_patch16": (22.05, 4610, "timm, deit_small_patch16_224"),
    "mobilevit_xxs": (1.27, 420, "open-mmlab/mmpretrain"),
    "mobilevit_xs": (2.32, 1050, "open-mmlab/mmpretrain"),
    "mobilevit_s": (5.58, 2030, "open-mmlab/mmpretrain"),
    # 8.7 billion operations, two for each multiply-add; its parameters are 3,157,200, as they are here.
    "yolo_anchor_free_n": (3.16, 4350, "ultralytics, YOLOv8n"),
    "fast_style_transfer": (1.68, None, "pytorch/examples, fast_neural_style: 1,679,235"),
}

# The two files of weights that darknet's author published: their sizes in bytes.
DARKNET = {"yolov2": (80, 203_934_260), "tiny_yolov2": (20, 63_471_556)}


def session(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def test_these_are_all_transformers_and_all_that_do_not_classify() -> None:
    others = {name for name, entry in CATALOG.items() if entry.task != "classification"}
    assert {*others, *(name for name, entry in CATALOG.items() if entry.family in ("vit", "mobilevit"))} == set(OUTPUTS)


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_catalog_says_what_the_graph_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_outlines(monkeypatch)
    model, entry = zoo.build(name), CATALOG[name]
    assert (parameters(model), multiply_adds(model)) == (entry.parameters, entry.multiply_adds)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_size_is_the_published_one(name: str) -> None:
    """Parameters to the digits published. Multiply-adds within 4 %: some counts include normalization."""
    millions, multiply_adds_m, source = PUBLISHED[name]
    entry = CATALOG[name]
    assert f"{entry.parameters / 1e6:.2f}" == f"{millions:.2f}", source
    if multiply_adds_m:
        assert entry.multiply_adds / 1e6 == pytest.approx(multiply_adds_m, rel=0.04), source


@pytest.mark.parametrize("name", DARKNET)
def test_yolo_is_as_large_as_its_published_weights(name: str) -> None:
    """To the byte: a header of 16, four for each number, mean and variance of each normalized channel among them."""
    classes, size_bytes = DARKNET[name]
    model = zoo.build(name, classes=classes)
    weights = [tensor for tensor in model.graph.initializer if tensor.name.endswith(".weight")]
    statistics = 2 * sum(tensor.dims[0] for tensor in weights[:-1])
    assert 4 * (parameters(model) + statistics) + 16 == size_bytes


def test_posenet_is_mobilenet_v1_and_four_heads() -> None:
    """Keras counts 3,206,976 weights to train in a MobileNet v1 without its classifier."""
    assert CATALOG["posenet"].parameters == 3_206_976 + (1024 + 1) * (17 + 34 + 32 + 32)


def test_retinaface_is_as_large_as_its_published_weights() -> None:
    """biubug6/Pytorch_Retinaface gives the size of its weights as 1.7 MB: four bytes for each parameter."""
    assert f"{4 * CATALOG['retinaface_mobilenet025'].parameters / 1e6:.1f}" == "1.7"


@pytest.mark.parametrize("name", OUTPUTS)
def test_it_runs_with_values_of_order_one_that_follow_the_input(name: str) -> None:
    size, shapes = OUTPUTS[name]
    model = zoo.build(name, size=size)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.output] == list(shapes)
    images = np.random.default_rng(1).standard_normal((3, 3, size, size), dtype=np.float32)
    runs = session(model)
    results = runs.run(None, {"input": images})
    for (output, shape), result in zip(shapes.items(), results, strict=True):
        assert result.shape == (3, *shape)
        assert np.isfinite(result).all()
        assert 0.05 < np.sqrt(np.mean(result**2)) < 20, output
        assert result[0].std() > 0.02, f"{output} is the same everywhere"
        assert (result[0] - result[1]).std() > 0.02, f"{output} is the same for every image"
    alone = runs.run(None, {"input": images[1:2]})
    for result, single in zip(results, alone, strict=True):
        np.testing.assert_allclose(single[0], result[1], rtol=1e-3, atol=1e-3 * np.abs(result).max())


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_graph_is_plain(name: str) -> None:
    """Nothing computes a shape; every node has a name of its own; the batch is open everywhere."""
    graph = zoo.build(name, size=OUTPUTS[name][0]).graph
    ops = {node.op_type for node in graph.node}
    assert ops.isdisjoint({"Shape", "Gather", "Expand", "Unsqueeze", "Identity", "Constant", "Cast"})
    assert "Pad" not in ops or CATALOG[name].family == "vit"
    assert len({node.name for node in graph.node}) == len(graph.node)
    assert {value.type.tensor_type.shape.dim[0].dim_param for value in (*graph.input, *graph.output)} == {"batch"}


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_fixed_batch_holds_for_every_output(name: str) -> None:
    size = OUTPUTS[name][0]
    model = zoo.build(name, size=size, batch=2)
    onnx.checker.check_model(model, full_check=True)
    shapes = [value.type.tensor_type.shape.dim[0].dim_value for value in (*model.graph.input, *model.graph.output)]
    assert set(shapes) == {2}


@pytest.mark.parametrize(
    "name", ["vit_tiny_patch16", "mobilevit_s", "yolov2", "yolo_anchor_free_n", "fast_style_transfer"]
)
def test_a_size_that_does_not_halve_evenly_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="must be a multiple of"):
        zoo.build(name, size=70)


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("tiny", 32, "imagenet(resize=37, crop=32)"),
        ("vit_tiny_patch16", 224, "imagenet(interpolation=bicubic)"),
        ("mobilevit_s", 128, "unit(resize=144, crop=128, order=bgr)"),
        ("yolov2", 416, "unit(crop=416, squash=true)"),
        ("posenet", 257, "inception(resize=0, crop=257, squash=true)"),
    ],
)
def test_the_file_says_how_its_images_are_made(name: str, size: int, expected: str) -> None:
    """At the size it has: a classifier sees the middle of an image, anything else all of it."""
    said = {prop.key: prop.value for prop in zoo.build(name, size=size).metadata_props}["preprocess"]
    assert parse_preprocess(said) == parse_preprocess(expected)


def test_the_class_token_belongs_to_every_image_of_a_batch() -> None:
    """The row for the class starts as zeros, so that no batch needs to be known: the token is in the first place."""
    model = zoo.build("vit_tiny_patch16", size=32)
    added = next(node for node in model.graph.node if "places" in node.input)
    model.graph.output.append(onnx.helper.make_tensor_value_info(added.output[0], onnx.TensorProto.FLOAT, None))
    images = np.random.default_rng(1).standard_normal((2, 3, 32, 32), dtype=np.float32)
    rows = session(model).run([added.output[0]], {"input": images})[0]
    places = next(tensor for tensor in model.graph.initializer if tensor.name == "places")
    token = onnx.numpy_helper.to_array(places)[0, 0]
    assert rows.shape == (2, 5, 192)
    np.testing.assert_array_equal(rows[:, 0], [token, token])


def test_patches_come_back_to_their_places() -> None:
    """MobileViT without its transformers is the same image again."""
    from edgewise.zoo.layers import Net
    from edgewise.zoo.mobilevit import _folded, _unfolded

    net = Net("there_and_back", 8)
    tokens = _unfolded(net, net.input)
    model = net.model(tokens=tokens, image=_folded(net, tokens, net.input), preprocess="unit")
    image = np.arange(192, dtype=np.float32).reshape(1, 3, 8, 8)
    rows, back = session(model).run(None, {"input": image})
    np.testing.assert_array_equal(back, image)
    # The first patch, row by row of the image, then the one to its right.
    np.testing.assert_array_equal(rows[0, :5, 0], image[0, 0, [0, 0, 1, 1, 0], [0, 1, 0, 1, 2]])


def test_places_of_one_kind_attend_to_their_own_only() -> None:
    """Rows in turn: what is changed in a row of one kind reaches the rows of that kind, and no others."""
    from edgewise.zoo.layers import Net
    from edgewise.zoo.tokens import attention, rows

    net = Net("attention", 4, channels=8)
    model = net.model(out=attention(net, rows(net, net.input), heads=2, apart=4), preprocess="unit")
    image = np.random.default_rng(0).standard_normal((1, 8, 4, 4), dtype=np.float32)
    changed = image.copy()
    changed[0, :, 0, 1] += 1
    before, after = (session(model).run(None, {"input": each})[0][0] for each in (image, changed))
    moved = np.flatnonzero(np.abs(before - after).max(axis=1) > 1e-5)
    assert moved.tolist() == [1, 5, 9, 13]
