"""Networks from timm and torchvision: what comes out is what PyTorch computes; refusals say why and what to do."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pickle
import socket
import time
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from edgewise.core.errors import CheckFailed, InputError, Unavailable, Unsupported
from edgewise.core.types import Preprocess
from edgewise.measure import isolate
from edgewise.model.load import inspect
from edgewise.zoo import pretrained
from edgewise.zoo.pretrained import network, weights

NETWORK = "torchvision:squeezenet1_1"
# Operators live as long as what declared them.
DECLARED: list[Any] = []


@pytest.fixture
def exporter() -> Any:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install 'edgewise[torchvision]'")
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def torchvision(exporter: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The package, with a cache of its own that is empty."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed: pip install 'edgewise[torchvision]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module("torchvision")
        except RuntimeError:
            # A wheel for CUDA beside a torch for CPUs: its own operators are missing. No classifier has any of them, so
            # they are only declared.
            DECLARED.append(exporter.library.Library("torchvision", "DEF"))
            for name in ("nms", "qnms"):
                DECLARED[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            return importlib.import_module("torchvision")


@pytest.fixture
def timm(torchvision: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    found = pytest.importorskip("timm", reason="timm is not installed: pip install 'edgewise[timm]'")
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return found


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/model-01234567.pth"


def scores(path: str, images: Any) -> Any:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})[0]


def images(batch: int, size: int) -> Any:
    return np.random.default_rng(batch).standard_normal((batch, 3, size, size)).astype(np.float32)


def told(path: str) -> dict[str, str]:
    return {prop.key: prop.value for prop in onnx.load(path, load_external_data=False).metadata_props}


def same(path: str, module: Any, size: int) -> bool:
    """Whether the file answers like the module, for more than one batch size."""
    import torch

    module.eval()
    for batch in (1, 2, 5):
        with torch.no_grad():
            expected = module(torch.from_numpy(images(batch, size))).numpy()
        if not np.allclose(scores(path, images(batch, size)), expected, rtol=0, atol=1e-4 * np.abs(expected).max()):
            return False
    return True


def stored(torchvision: Any, monkeypatch: pytest.MonkeyPatch, content: bytes, *, renamed: bool = True) -> Path:
    """A file of weights in torch's cache, under the name torchvision asks for.

    The real file cannot be had without a network, so `renamed` lets torchvision ask for one with this content's digest.
    """
    import torch

    chosen = torchvision.models.SqueezeNet1_1_Weights.IMAGENET1K_V1
    if renamed:
        front = chosen.url.rpartition("-")[0]
        monkeypatch.setattr(chosen.value, "url", f"{front}-{hashlib.sha256(content).hexdigest()[:8]}.pth")
    file = Path(torch.hub.get_dir()) / "checkpoints" / chosen.url.rpartition("/")[2]
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


def squeezenet(torchvision: Any) -> tuple[Any, bytes]:
    """The network with weights that are nobody's, and its file as torchvision's are."""
    import io

    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        module = torchvision.models.squeezenet1_1(weights=None)
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    return module, buffer.getvalue()


def test_a_name_belongs_to_a_source_or_not() -> None:
    assert pretrained.named("timm:resnet18") and pretrained.named("torchvision:resnet18@random")
    assert not any(pretrained.named(name) for name in ("timm", "resnet18", "c:model.onnx", "models/timm.onnx"))


@pytest.mark.parametrize("name", ["timm:", "timm:../x", "torchvision:a/b", "timm:a@b@c", "hub:resnet18", "resnet18"])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected timm:NAME"):
        pretrained.fetch(name=name, folder=str(tmp_path))


@pytest.mark.parametrize("source", ["timm", "torchvision"])
def test_a_missing_package_comes_with_the_command_that_installs_it(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(pretrained.metadata, "version", absent)
    with pytest.raises(Unavailable, match=f"needs the package {source}") as refusal:
        pretrained.fetch(name=f"{source}:resnet18", folder=str(tmp_path))
    assert refusal.value.hint == f"pip install 'edgewise[{source}]'"


def test_builds_that_do_not_fit_each_other_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(package: str) -> Any:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(network.importlib, "import_module", broken)
    monkeypatch.setattr(network.metadata, "version", {"torch": "2.13.0+cpu", "torchvision": "0.28.0"}.__getitem__)
    with pytest.raises(
        Unavailable, match=r"torch 2\.13\.0\+cpu and torchvision 0\.28\.0 are not builds for each other"
    ):
        network.library("torchvision")


def test_random_weights_need_no_download_and_say_so(torchvision: Any, tmp_path: Path) -> None:
    path = pretrained.fetch(name=f"{NETWORK}@random", folder=str(tmp_path))
    assert Path(path).parent == tmp_path
    assert told(path)["weights"] == "random" and told(path)["source"] == f"{NETWORK}@random"
    assert "classes" not in told(path)
    model = inspect(path)
    assert model.inputs[0].shape == ("batch", 3, 224, 224) and model.outputs[0].shape == ("batch", 1000)
    assert str(model.preprocess) == "imagenet"
    proto = onnx.load(path)
    assert proto.opset_import[0].version >= 17
    onnx.checker.check_model(proto, full_check=True)
    module = network.seeded(lambda: torchvision.models.squeezenet1_1(weights=None))
    assert same(path, module, 224)
    assert np.ptp(scores(path, images(1, 224))) > 0
    # Notes of the exporter would carry the paths of the machine that made the file.
    assert b".py" not in Path(path).read_bytes()


def test_a_network_is_exported_once_and_found_in_a_worker(
    timm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "timm:test_vit@random"
    path = pretrained.fetch(name=name, folder=str(tmp_path))
    written = Path(path).stat().st_mtime_ns
    assert isolate.call("edgewise.zoo.pretrained:fetch", name=name, folder=str(tmp_path)) == path
    assert [file.name for file in tmp_path.glob("*.onnx")] == [Path(path).name]
    assert Path(path).stat().st_mtime_ns == written
    monkeypatch.setattr(pretrained, "_revision", lambda: "another exporter")
    assert pretrained.fetch(name=name, folder=str(tmp_path)) != path


def test_weights_in_torchs_cache_are_used_without_a_network(
    torchvision: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, content = squeezenet(torchvision)
    stored(torchvision, monkeypatch, content)
    path = pretrained.fetch(name=NETWORK, folder=str(tmp_path))
    assert same(path, module, 224)
    assert told(path)["weights"] == "IMAGENET1K_V1" and told(path)["source"] == f"{NETWORK}@IMAGENET1K_V1"
    assert json.loads(told(path)["classes"])[:2] == ["tench", "goldfish"]


def test_a_file_that_is_not_what_its_name_says_is_refused(
    torchvision: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stored(torchvision, monkeypatch, squeezenet(torchvision)[1], renamed=False)
    with pytest.raises(CheckFailed, match=f"{file.name} is not the file .* SHA-256"):
        pretrained.fetch(name=NETWORK, folder=str(tmp_path))


class Program:
    """Unpickled, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_program_in_a_file_of_weights_is_not_run(
    torchvision: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(torchvision, monkeypatch, pickle.dumps(Program(tmp_path / "ran"), protocol=2))
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(CheckFailed, match="hold more than weights"):
        pretrained.fetch(name=NETWORK, folder=str(tmp_path))
    assert not (tmp_path / "ran").exists()


def test_without_a_network_the_refusal_says_where_the_file_belongs(
    torchvision: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setattr(torchvision.models.SqueezeNet1_1_Weights.IMAGENET1K_V1.value, "url", silent)
    monkeypatch.setattr(weights, "_TIMEOUT_S", 0.2)
    begin = time.monotonic()
    with pytest.raises(Unavailable, match=f"not on this machine, and {silent}") as refusal:
        pretrained.fetch(name=NETWORK, folder=str(tmp_path))
    assert time.monotonic() - begin < 5
    assert refusal.value.hint is not None and f"{NETWORK}@random" in refusal.value.hint
    assert f"copy model-01234567.pth to {tmp_path / 'torch' / 'hub' / 'checkpoints'}" in refusal.value.hint
    assert not list(tmp_path.glob("*.onnx"))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("torchvision:resnet19", InputError, "near it: .*resnet18"),
        ("torchvision:resnet50@IMAGENET1K_V9", InputError, "it has IMAGENET1K_V1, IMAGENET1K_V2"),
        ("torchvision:fasterrcnn_resnet50_fpn", Unsupported, "networks for detection; only classifiers"),
        ("torchvision:vgg16@IMAGENET1K_FEATURES", Unsupported, "features only"),
    ],
)
def test_what_torchvision_does_not_have_is_refused(
    torchvision: Any, tmp_path: Path, name: str, kind: type[Exception], expected: str
) -> None:
    with pytest.raises(kind, match=expected):
        pretrained.fetch(name=name, folder=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("timm:resnet19", InputError, "near it: .*resnet18"),
        ("timm:resnet18.a9_in1k", InputError, "it has: .*a1_in1k"),
        ("timm:resnet18@a1_in1k", InputError, "takes 'random' after the @"),
        ("timm:vit_small_patch14_dinov2", Unsupported, "no classifier"),
        ("timm:vit_small_patch14_dinov2@random", Unsupported, "no classifier"),
    ],
)
def test_what_timm_does_not_have_is_refused(
    timm: Any, tmp_path: Path, name: str, kind: type[Exception], expected: str
) -> None:
    with pytest.raises(kind, match=expected):
        pretrained.fetch(name=name, folder=str(tmp_path))


def test_weights_in_the_hubs_cache_are_used_without_a_network(timm: Any, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    module = network.seeded(lambda: timm.create_model("test_resnet"))
    cached = tmp_path / "hub" / "models--timm--test_resnet.r160_in1k"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    (cached / "snapshots" / ("0" * 40)).mkdir(parents=True)
    save_file(module.state_dict(), cached / "snapshots" / ("0" * 40) / "model.safetensors")
    path = pretrained.fetch(name="timm:test_resnet", folder=str(tmp_path))
    assert same(path, module, 160)
    assert told(path)["source"] == "timm:test_resnet.r160_in1k" and told(path)["weights"] == "r160_in1k"
    assert json.loads(told(path)["classes"])[1].startswith("goldfish")
    found = inspect(path).preprocess
    assert found is not None and (found.resize, found.crop, found.interpolation) == (168, 160, "bilinear")


def test_without_a_network_the_hub_is_not_asked_for_minutes(
    timm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "hf_hub_url", lambda *given: silent)
    monkeypatch.setattr(weights, "_TIMEOUT_S", 0.2)
    begin = time.monotonic()
    with pytest.raises(Unavailable, match="not on this machine") as refusal:
        pretrained.fetch(name="timm:resnet18", folder=str(tmp_path))
    assert time.monotonic() - begin < 5
    assert refusal.value.hint is not None and "timm:resnet18.a1_in1k@random" in refusal.value.hint
    assert "hf download timm/resnet18.a1_in1k model.safetensors` where" in refusal.value.hint
    assert str(tmp_path / "hub" / "models--timm--resnet18.a1_in1k") in refusal.value.hint


def test_preprocessing_is_what_timm_itself_would_do(timm: Any) -> None:
    from edgewise.zoo.pretrained.timm import _preprocess

    usual = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "interpolation": "bicubic", "crop_mode": "center"}
    usual |= {"input_size": (3, 224, 224), "crop_pct": 0.9}
    half = (0.5, 0.5, 0.5)
    assert _preprocess(usual) == Preprocess(248, 224, interpolation="bicubic", mean=half, std=half)
    squashed = _preprocess(usual | {"crop_mode": "squash", "crop_pct": 1.0})
    assert squashed == Preprocess(0, 224, squash=True, interpolation="bicubic", mean=half, std=half)
    for unsaid in ({"crop_mode": "squash"}, {"crop_mode": "border"}, {"input_size": (3, 224, 192)}):
        assert _preprocess(usual | unsaid) is None


def written(module: Any, folder: Path) -> list[Path]:
    from edgewise.zoo.pretrained.export import write

    found = network.Network("test:module", "random", module, (3, 8, 8), None)
    with warnings.catch_warnings():  # as `fetch` does
        warnings.simplefilter("ignore")
        return list(write(found, folder / "module.onnx", {}))


def test_an_export_that_computes_something_else_is_refused(exporter: Any, tmp_path: Path) -> None:
    class Dice(exporter.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.mean((2, 3)) + exporter.rand(3)

    with pytest.raises(CheckFailed, match=r"off by .* from torch"):
        written(Dice(), tmp_path)


def test_what_depends_on_the_values_of_an_image_cannot_be_exported(exporter: Any, tmp_path: Path) -> None:
    class Choice(exporter.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))

    with pytest.raises(Unsupported, match="cannot export test:module"):
        written(Choice(), tmp_path)


def test_anything_but_one_answer_for_each_image_is_refused(exporter: Any, tmp_path: Path) -> None:
    class Two(exporter.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.mean((2, 3)), x.amax((2, 3))

    class Together(exporter.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.reshape(2, -1)

    for module in (Two(), Together()):
        with pytest.raises(Unsupported, match="expected one vector of scores for each image"):
            written(module, tmp_path)


def test_weights_too_many_for_one_file_lie_beside_it(
    exporter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgewise.zoo.pretrained import export

    monkeypatch.setattr(export, "_LARGEST_BYTES", 1000)
    module = exporter.nn.Sequential(exporter.nn.Flatten(), exporter.nn.Linear(192, 10))
    data, model = written(module, tmp_path)
    assert (data.name, model.name) == ("module.onnx.data", "module.onnx")
    assert data.stat().st_size >= 192 * 10 * 4 > model.stat().st_size
    assert same(str(model), module, 8)
    assert inspect(str(model)).digest
