"""Accuracy as a user asks for it: real models on real images, in workers, saved and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from command import edgewise
from edgewise.core.evaluation import Evaluation
from edgewise.store.db import Store
from edgewise.store.evaluations import Evaluations

SHARED = Path(__file__).parents[3] / "shared"
CIFAR_MODELS, CIFAR_DATA = SHARED / "models" / "cifar100", SHARED / "data" / "cifar100" / "test.npz"
# Top-1 in percent, as measured by who trained them.
CIFAR_TOP1 = {
    "resnet8": 58.05,
    "resnet20": 66.61,
    "mobilenet_v2_050": 70.01,
    "resnet18_half": 74.13,
    "resnet18": 77.64,
}
needs_cifar = pytest.mark.skipif(not CIFAR_DATA.exists(), reason="the CIFAR-100 models and images are not here")


def asked(*arguments: str) -> list[dict[str, Any]]:
    """Rows of the accuracy table."""
    done = edgewise("accuracy", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    section = json.loads(done.stdout)["section"]
    return [dict(zip([c["name"] for c in section["columns"]], row, strict=True)) for row in section["rows"]]


@pytest.fixture(scope="session")
def brightness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier anybody can check: class 1 where an image is brighter than half, with the batch open."""
    helper, tensor = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight", "bias"], ["scores"]),
    ]
    weight = np.array([[0, 1]] * 3, np.float32)
    graph = helper.make_graph(
        nodes,
        "brightness",
        [helper.make_tensor_value_info("image", tensor.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", tensor.FLOAT, ["batch", 2])],
        [
            onnx.numpy_helper.from_array(weight, "weight"),
            onnx.numpy_helper.from_array(np.array([1.5, 0], np.float32), "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path_factory.mktemp("models") / "brightness.onnx"
    onnx.save(model, str(path))
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """24 grey pictures, of which one dark and two bright ones lie in the wrong folder."""
    for number in range(24):
        bright = number % 2
        wrong = number in (2, 5, 7)
        folder = tmp_path / "pictures" / ("bright" if bright != wrong else "dark")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 12), (40 + 180 * bright,) * 3).save(folder / f"{number}.png")
    return tmp_path / "pictures"


@pytest.fixture
def names(tmp_path: Path) -> Path:
    path = tmp_path / "labels.txt"
    path.write_text("dark\nbright\n")
    return path


def test_a_folder_of_pictures(brightness: Path, pictures: Path, names: Path) -> None:
    how = ("--data", str(pictures), "--labels", str(names), "--preprocess", "unit(crop=8, squash=true)")
    first, second = asked(str(brightness), *how, "--on", "ort", "--on", "openvino", "--batch", "5")
    assert first["top1"] == pytest.approx(21 / 24) and first["images"] == 24
    assert first["interval"][0] < 21 / 24 < first["interval"][1]
    assert second["difference"] == 0 and second["p"] == 1
    assert min(first["decode"], first["prepare"], first["run"]) > 0


def test_a_table_for_people(brightness: Path, pictures: Path, names: Path) -> None:
    how = ("--data", str(pictures), "--labels", str(names), "--preprocess", "unit(crop=8, squash=true)")
    done = edgewise("accuracy", str(brightness), *how, "--classes", "--limit", "20")
    assert done.returncode == 0, done.stderr
    assert "20 images of pictures" in done.stdout
    assert "taken for" in done.stdout and "bright" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "does not say which data it is for"),
        (("--data", "{pictures}"), "does not say how an image becomes its input"),
        (("--data", "gone", "--preprocess", "unit"), "there is no data at gone"),
        (("--data", "{pictures}", "--preprocess", "unit"), "as 3x12x16, and brightness takes 3x8x8"),
        (("--data", "{pictures}", "--preprocess", "unit(crop=8, label_offset=1)"), "outputs beginning at 1"),
        (("--data", "{pictures}", "--preprocess", "unit(crop=8)", "--limit", "0"), "at least 1"),
        (("--data", "{pictures}", "--preprocess", "unit(crop=8)", "--batch", "0"), "at least 1"),
        (("--data", "pocket(split=exam)", "--preprocess", "unit"), "train"),
    ],
)
def test_what_cannot_be_asked(brightness: Path, pictures: Path, arguments: tuple[str, ...], says: str) -> None:
    done = edgewise("accuracy", str(brightness), *(each.format(pictures=pictures) for each in arguments))
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert says in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_broken_picture_is_named_and_what_was_answered_is_kept(
    brightness: Path, pictures: Path, tmp_path: Path
) -> None:
    (pictures / "dark" / "zz.png").write_bytes(b"not a picture")
    store = tmp_path / "lab.db"
    how = ("--data", str(pictures), "--preprocess", "unit(crop=8, squash=true)", "--batch", "4", "--save", str(store))
    done = edgewise("accuracy", str(brightness), *how)
    assert done.returncode == 2
    assert "zz.png cannot be read as a picture" in done.stdout
    with Store(store) as opened:
        # Parts of 4, then 8: the broken one is the last of 25.
        assert opened.connection.execute("SELECT count(*) FROM answers").fetchone()[0] >= 2


def test_a_slow_model_is_asked_in_whole_batches(brightness: Path, pictures: Path, tmp_path: Path) -> None:
    store = tmp_path / "lab.db"
    how = ("--data", str(pictures), "--preprocess", "unit(crop=8, squash=true)", "--batch", "5", "--save", str(store))
    (row,) = asked(str(brightness), *how, "--on", "null{latency=700ms}")
    with Store(store) as opened:
        ((_, _, _, record),) = Evaluations(opened).all()
    assert isinstance(record, Evaluation)
    assert [len(part.labels) for part in record.answers] == [5, 5, 5, 5, 4]
    assert 0.7e9 / 5 <= row["run"] < 0.75e9 / 5


def changed(brightness: Path, path: Path, **options: Any) -> Path:
    """The classifier with another batch, layout, number of outputs or open sizes."""
    model = onnx.load(str(brightness))
    dims = model.graph.input[0].type.tensor_type.shape.dim
    if "batch" in options:
        for value in (model.graph.input[0], model.graph.output[0]):
            value.type.tensor_type.shape.dim[0].dim_value = options["batch"]
    if "open" in options:
        dims[2].dim_param, dims[3].dim_param = "height", "width"
    if "background" in options:
        for tensor, padded in zip(model.graph.initializer, ([[-9, 0, 1]] * 3, [-9, 1.5, 0]), strict=True):
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(padded, np.float32), tensor.name))
        model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 3
    if "last" in options:
        model.graph.node.insert(0, onnx.helper.make_node("Transpose", ["image"], ["first"], perm=[0, 3, 1, 2]))
        model.graph.node[1].input[0] = "first"
        dims[1].dim_value, dims[3].dim_value = 8, 3
    if "half" in options:
        model.graph.node.insert(0, onnx.helper.make_node("Cast", ["image"], ["full"], to=onnx.TensorProto.FLOAT))
        model.graph.node[1].input[0] = "full"
        model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize(
    ("options", "preprocess"),
    [
        ({"batch": 7}, "unit(crop=8, squash=true)"),
        ({"open": True}, "unit(crop=8, squash=true)"),
        ({"background": True}, "unit(crop=8, squash=true, label_offset=1)"),
        ({"last": True}, "unit(crop=8, squash=true, layout=nhwc)"),
        ({"half": True}, "unit(crop=8, squash=true)"),
    ],
)
def test_models_of_every_form(
    brightness: Path, pictures: Path, names: Path, tmp_path: Path, options: dict[str, Any], preprocess: str
) -> None:
    model = changed(brightness, tmp_path / "other.onnx", **options)
    (row,) = asked(str(model), "--data", str(pictures), "--labels", str(names), "--preprocess", preprocess)
    assert row["top1"] == pytest.approx(21 / 24)


def test_a_layout_that_does_not_fit_is_told(brightness: Path, pictures: Path, tmp_path: Path) -> None:
    model = changed(brightness, tmp_path / "other.onnx", last=True)
    done = edgewise("accuracy", str(model), "--data", str(pictures), "--preprocess", "unit(crop=8, squash=true)")
    assert done.returncode == 2
    assert "as 3x8x8, and other takes 8x8x3" in done.stdout and "layout=nhwc" in done.stdout


def test_everything_is_checked_before_anything_is_asked(brightness: Path, tmp_path: Path) -> None:
    store = tmp_path / "lab.db"
    done = edgewise("accuracy", "pocket/nano", str(brightness), "--save", str(store))
    assert done.returncode == 2 and "does not say which data it is for" in done.stderr
    with Store(store) as opened:
        assert not list(Evaluations(opened).all())


def test_calibration_never_sees_what_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from edgewise.core.errors import InputError
    from edgewise.study import images
    from edgewise.study.images import Question, exam, own_calibration
    from edgewise.study.prepare import Limits, find_model

    model = find_model("pocket/nano", Limits())
    for hold_out in (False, True):
        asked_about, held = exam(model, Question("pocket(count=300)"), hold_out=hold_out)
        assert len(held) == (30 if hold_out else 0)
        assert not set(held) & set(asked_about.indices) and len(held) + len(asked_about.indices) == 300
    sources: list[str] = []
    monkeypatch.setattr(images, "other_calibration", lambda _, source, *__, **___: sources.append(source) or "made")
    own_calibration(model, None)
    own_calibration(model, "pocket(split=train)")
    assert sources == ["pocket(split=train, count=128)", "pocket(split=validation, count=128)"]
    monkeypatch.undo()
    with pytest.raises(InputError, match="calibrated on its own exam"):
        images.other_calibration(model, asked_about.data, None, asked_about)


def test_images_are_held_out_for_all_models_or_for_none(
    brightness: Path, pictures: Path, names: Path, tmp_path: Path
) -> None:
    other = changed(brightness, tmp_path / "other.onnx", batch=3)
    how = ("--data", str(pictures), "--labels", str(names), "--preprocess", "unit(crop=8, squash=true)")
    rows = asked(str(brightness), str(other), *how, "--on", "ort:cpu:int8", "--on", "ort:cpu")
    assert {row["images"] for row in rows} == {22}
    assert all(row["difference"] is not None for row in rows[1:])


def test_what_does_not_classify_is_refused(tmp_path: Path, pictures: Path) -> None:
    from edgewise import zoo

    model = zoo.build("tiny", size=8)
    del model.graph.node[-3:]
    inner = onnx.helper.make_tensor_value_info(model.graph.node[-1].output[0], onnx.TensorProto.FLOAT, [None] * 4)
    model.graph.output[0].CopyFrom(inner)
    onnx.save(model, str(tmp_path / "map.onnx"))
    done = edgewise(
        "accuracy", str(tmp_path / "map.onnx"), "--data", str(pictures), "--preprocess", "unit(crop=8, squash=true)"
    )
    assert done.returncode == 4
    assert "does not classify: its first output is" in done.stdout


@needs_cifar
@pytest.mark.slow
def test_real_models_are_as_good_as_they_were(tmp_path: Path) -> None:
    """All five CIFAR-100 models on all 10,000 test images, and the order of the classes they were trained on."""
    models = [str(CIFAR_MODELS / f"{name}.onnx") for name in CIFAR_TOP1]
    store = str(tmp_path / "lab.db")
    how = ("--data", str(CIFAR_DATA), "--preprocess", "cifar100", "--batch", "50", "--save", store)
    rows = asked(*models, *how, "--on", "openvino:cpu")
    assert {row["model"]: round(100 * row["top1"], 2) for row in rows} == CIFAR_TOP1
    assert all(row["p"] < 1e-6 for row in rows[1:])
    with Store(store) as opened:
        kept = [record for _, _, _, record in Evaluations(opened).all()]
    assert [record.images for record in kept if isinstance(record, Evaluation)] == [10_000] * 5


@needs_cifar
def test_int8_is_calibrated_on_images_left_out(tmp_path: Path) -> None:
    model = str(CIFAR_MODELS / "resnet8.onnx")
    how = ("--data", str(CIFAR_DATA), "--preprocess", "cifar100", "--limit", "500")
    plain, quantized = asked(model, *how, "--on", "ort:cpu", "--on", "ort:cpu:int8")
    assert plain["data"] == "test.npz, without 128 for calibration"
    assert abs(quantized["difference"]) < 0.03
    train = str(CIFAR_DATA.with_name("train_sample.npz"))
    (again,) = asked(model, *how, "--on", "ort:cpu:int8", "--calibration", train)
    assert again["data"] == "test.npz"
    assert abs(again["top1"] - plain["top1"]) < 0.06


def test_one_that_was_ended_before_it_said_so_is_complete(brightness: Path, pictures: Path, tmp_path: Path) -> None:
    store = tmp_path / "lab.db"
    how = ("--data", str(pictures), "--preprocess", "unit(crop=8, squash=true)", "--save", str(store))
    (first,) = asked(str(brightness), *how)
    with Store(store) as opened:
        opened.connection.execute("UPDATE evaluations SET status = 'running', owner = '1:0.00'")
    (again,) = asked(str(brightness), *how, "--resume")
    assert again == first
    with Store(store) as opened:
        assert [status for _, _, status, _ in Evaluations(opened).all()] == ["complete"]


@needs_cifar
def test_an_interrupted_one_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store = tmp_path / "lab.db"
    arguments = [
        *(str(CIFAR_MODELS / "resnet8.onnx"), "--data", str(CIFAR_DATA), "--preprocess", "cifar100"),
        *("--on", "ort:cpu@1", "--limit", "2000", "--save", str(store)),
    ]
    running = subprocess.Popen([sys.executable, "-m", "edgewise", "accuracy", *arguments], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _answered(store) < 200:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    before = _answered(store)
    assert 200 <= before < 2000
    (row,) = asked(*arguments, "--resume")
    assert row["images"] == 2000
    with Store(store) as opened:
        ((_, _, status, record),) = Evaluations(opened).all()
    assert isinstance(record, Evaluation)
    assert status == "complete" and record.answered == 2000
    # What was answered first is the same as what one uninterrupted run answers.
    (whole,) = asked(*arguments[:-2], "--save", str(tmp_path / "other.db"))
    assert whole["top1"] == row["top1"]


def _answered(store: Path) -> int:
    if not store.exists():
        return 0
    with Store(store) as opened:
        return sum(r.answered for _, _, _, r in Evaluations(opened).all() if isinstance(r, Evaluation))
