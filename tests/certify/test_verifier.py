"""The verifier: right about networks that torch computes, and not to be fooled."""

from __future__ import annotations

import ast
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from certify.certificates import Handed
from modelkeep import Model, Preprocessing
from modelkeep.certify import verifier
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.certify.verifier import constants as bounds
from modelkeep.certify.verifier.network import ClaimedBlock, Network
from modelkeep.zoo.architectures import MinMax

HOME = Path(verifier.__file__).parent


def failing(report: verifier.Report) -> dict[str, str]:
    return {check.name: check.says for check in report.checks if check.status == "fails"}


def check(handed: Handed, certificate: Path, **given: Any) -> verifier.Report:
    return handed.verify(certificate, **given)


# The network, against torch.


class Branches(nn.Module):
    """Sums and concatenations, of values with one source and with several."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = nn.Conv2d(2, 2, (3, 5), padding="same", groups=2), nn.Conv2d(2, 2, 1)
        self.factor = nn.Parameter(torch.tensor([1.5, -0.5])[:, None, None])
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = torch.tanh(x - 0.5 * self.near(x))
        wide = torch.cat([z.relu(), (self.far(z).abs() + 0.25) * self.factor], dim=1)
        joined = torch.cat([wide, torch.sigmoid(wide) - wide], dim=1).mean(dim=(2, 3))
        made: torch.Tensor = self.head(joined)
        return made


def image_network() -> nn.Module:
    norm = nn.BatchNorm2d(4)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    strided = nn.Conv2d(4, 6, 3, stride=(2, 1), dilation=(1, 2), padding=(1, 2))
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1, bias=False), norm, nn.Tanh(), strided, nn.AvgPool2d(3, 1, 1), MinMax()),
        *(nn.PixelUnshuffle(2), nn.GELU(), nn.MaxPool2d(2, 1, 1), nn.Flatten(), nn.Linear(24 * 3 * 5, 3)),
    )


def row_network() -> nn.Module:
    layers = [
        nn.Unflatten(1, (2, 64)),
        nn.ZeroPad1d((1, 2)),
        nn.Conv1d(2, 4, 5, stride=3),
        nn.SELU(),
        nn.MaxPool1d(3, 2),
    ]
    return nn.Sequential(nn.Flatten(), *layers, nn.AvgPool1d(2), nn.Flatten(), nn.Linear(20, 3), nn.Softplus())


NETWORKS: dict[str, Callable[[], nn.Module]] = {"image": image_network, "branches": Branches, "row": row_network}
NAMES = list(NETWORKS)
NORMS = ["l2", "linf", "l1"]


def traced(name: str) -> tuple[Model, Network]:
    torch.manual_seed(1)
    scaling = Preprocessing((0.1, 0.4), (0.3, 0.6))
    model = Model(NETWORKS[name](), input_shape=(2, 8, 8), classes=3, preprocessing=scaling)
    tensors = {key: tensor.detach().double().numpy() for key, tensor in tensors_of(model.module).items()}
    return model, Network([asdict(operation) for operation in trace_operations(model)], tensors)


@pytest.mark.parametrize("name", NAMES)
def test_it_computes_what_torch_computes(name: str) -> None:
    model, network = traced(name)
    x = torch.rand(5, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(network.logits(x.numpy()), model.logits(x).numpy(), rtol=1e-5, atol=1e-6)


ACTIVATIONS: dict[str, nn.Module] = {
    "relu6": nn.ReLU6(),
    "leaky": nn.LeakyReLU(-1.5),
    "elu": nn.ELU(2.5),
    "selu": nn.SELU(),
    "silu": nn.SiLU(),
    "softplus": nn.Softplus(),
    "sigmoid": nn.Sigmoid(),
    "hardtanh": nn.Hardtanh(-2, 0.5),
    "softsign": nn.Softsign(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
}


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_activations_are_torchs_and_no_steeper_than_their_slope(name: str) -> None:
    model = Model(nn.Identity(), input_shape=(4001,), classes=4001, bounds=None)
    model.module = ACTIVATIONS[name].eval()  # as it is: a network that ends in sigmoids is taken for a multi-label one
    network = Network([asdict(operation) for operation in trace_operations(model)], {})
    x = torch.linspace(-25, 25, 4001)
    made = network.logits(x[None].numpy())[0]
    np.testing.assert_allclose(made, model.forward(x[None])[0].numpy(), rtol=1e-5, atol=1e-6)
    steepest = np.abs(np.diff(made) / np.diff(x.double().numpy())).max()
    slope = bounds.slope(network.steps[network.last], "l2")
    assert 0.97 * slope <= steepest <= slope * (1 + 1e-6)


# The bounds, against the matrices themselves.


@pytest.mark.parametrize("name", NAMES)
def test_transposes_are_transposes(name: str) -> None:
    _, network = traced(name)
    random = np.random.default_rng(0)
    for end, start in network.sources().items():
        block = ClaimedBlock(network, start, end)
        v, u = random.standard_normal((2, block.columns)), random.standard_normal((2, block.rows))
        np.testing.assert_allclose((block.apply(v) * u).sum(), (v * block.transpose(u)).sum(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", NAMES)
def test_norms_hold_the_exact_one_between_them(name: str, norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = traced(name)
    exact = bounds.constants(network, norm)
    sources = network.sources()
    for end, known in exact.blocks.items():
        block = ClaimedBlock(network, sources[end], end)
        matrix = block.apply(np.eye(block.columns)).T
        norm_of = np.linalg.norm(matrix, {"l2": 2, "linf": np.inf, "l1": 1}[norm])
        assert known.lower <= norm_of <= known.upper <= known.lower * (1 + 1e-8)
    monkeypatch.setattr(bounds, "LARGEST", 0)  # as if all blocks were large
    rough = bounds.constants(network, norm)
    for end, known in rough.blocks.items():
        assert known.lower <= exact.blocks[end].upper
        assert exact.blocks[end].lower <= known.upper <= 3 * known.lower
    assert (rough.lower <= exact.upper).all()
    assert (exact.lower <= rough.upper).all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", NAMES)
def test_no_two_inputs_are_further_apart_than_the_constants_allow(name: str, norm: str) -> None:
    _, network = traced(name)
    upper = bounds.constants(network, norm).upper
    random = np.random.default_rng(0)
    x = random.random((200, 2, 8, 8))
    step = random.standard_normal(x.shape) * 0.01
    size = np.linalg.norm(step.reshape(200, -1), {"l2": 2, "linf": np.inf, "l1": 1}[norm], axis=1)
    change = network.logits(x + step) - network.logits(x)
    apart = np.abs(change[:, :, None] - change[:, None, :])
    assert (apart <= upper * size[:, None, None]).all()
    assert apart.max() > 0


def test_a_convolution_added_to_its_input_is_bounded_as_one() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4 * 100, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = self.head((x - self.conv(x)).relu().flatten(1))
            return made

    torch.manual_seed(0)
    model = Model(Residual(), input_shape=(4, 10, 10), classes=2)
    with torch.no_grad():
        model.module.conv.weight[range(4), range(4), 1, 1] += 1  # type: ignore[index, operator, union-attr]
    tensors = {key: tensor.detach().double().numpy() for key, tensor in tensors_of(model.module).items()}
    network = Network([asdict(operation) for operation in trace_operations(model)], tensors)
    block = ClaimedBlock(network, "input", "sub")
    exact = np.linalg.norm(block.apply(np.eye(block.columns)), 2)
    assert exact * (1 - 1e-9) <= bounds._step_by_step(block, "l2") <= 1.05 * exact


# Certificates, honest and not.


def test_an_honest_certificate_is_accepted(handed: Handed) -> None:
    report = check(handed, handed.certificate)
    assert {check.status for check in report.checks} == {"holds"}
    assert (report.word, report.exit_code) == ("verified", 0)
    assert report.claimed == report.shown
    for told in ("VERIFIED", "standard guarantee", "l2", "radius 0.05", f"{report.claimed} of 30", str(report.signer)):
        assert told in report.verdict
    assert report.claimed is not None
    assert 5 < report.claimed < 30


def lie(*path: Any, by: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    """Change the value at the end of the path."""

    def change(content: dict[str, Any]) -> None:
        place: Any = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = by(place[path[-1]])

    return change


def halved(matrix: Any) -> Any:
    return (np.asarray(matrix) / 2).tolist()


def all_halved(content: dict[str, Any]) -> None:
    """All constants, and the radii that would follow: consistent, and false."""
    content["margins"] = halved(content["margins"])
    content["layers"][0]["bound"] /= 2
    for entry in content["inputs"]:
        entry["radius"] *= 1.9
    content["summary"]["certified"] = sum(entry["radius"] > content["radius"] for entry in content["inputs"])


def unrounded(content: dict[str, Any]) -> None:
    for name in ("apart", "lengths", "constant"):
        content["rounding"][name] = np.zeros((10, 10)).tolist()


LIES: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "weights": ("weights", lie("weights", "tensors", "conv1.weight", "sha256", by=lambda h: h[::-1])),
    "weights' hash": ("weights", lie("weights", "sha256", by=lambda h: h[::-1])),
    "another operation": ("logits", lie("operations", 2, "settings", "size", by=lambda _: 4)),
    "an operation left out": (
        "logits",
        lie("operations", 4, by=lambda o: {**o, "kind": "activation", "settings": {"function": "relu"}}),
    ),
    "a smaller network": ("margins", lie("margins", by=lambda k: (np.asarray(k) * 0.99).tolist())),
    "one constant": ("margins", lie("margins", 3, 5, by=lambda k: k * 0.999)),
    "a layer": ("layers", lie("layers", 1, "bound", by=lambda b: b * 0.999)),
    "no layer": ("layers", lie("layers", by=lambda layers: layers[1:])),
    "all constants": ("margins", all_halved),
    "a radius": ("radii", lie("inputs", 0, "radius", by=lambda r: r * 1.001)),
    "no limit": ("radii", lie("inputs", 0, "radius", by=lambda _: None)),
    "a class": ("radii", lie("inputs", 0, "predicted", by=lambda p: (p + 1) % 10)),
    "logits": ("logits", lie("inputs", 0, "logits", by=lambda v: (np.asarray(v) * 1.01).tolist())),
    "the owner's logits": ("logits", lie("inputs", 0, "computed", by=lambda v: (np.asarray(v) * 1.001).tolist())),
    "smaller values": ("logits", lie("inputs", 0, "carried", by=lambda n: n / 2)),
    "no rounding": ("logits", unrounded),
    "more verified": ("summary", lie("summary", "verified", by=lambda n: n + 1)),
    "a larger radius": ("summary", lie("radius", by=lambda r: r * 3)),
    "a negative constant": ("shapes", lie("margins", 0, 1, by=lambda k: -k)),
    "a negative rounding": ("shapes", lie("rounding", "made", 0, by=lambda n: -1.0)),
    "too few constants": ("shapes", lie("margins", by=lambda k: k[1:])),
    "an unknown norm": ("shapes", lie("norm", by=lambda _: "l0")),
    "an unknown kind": ("content", lie("operations", 2, "kind", by=lambda _: "softmax")),
    "an unknown guarantee": ("promise", lie("guarantee", "kind", by=lambda _: "always")),
    "a wrong shape": ("content", lie("operations", 1, "shape", by=lambda s: [s[0], s[1] + 1, s[2]])),
    "a field in a wrong form": ("content", lie("inputs", by=lambda _: [1, 2])),
}


@pytest.mark.parametrize("what", list(LIES))
def test_a_signer_who_lies_is_caught(handed: Handed, tmp_path: Path, what: str) -> None:
    where, change = LIES[what]
    report = check(handed, handed.changed(tmp_path / "c.json", change))
    assert report.word == "refused"
    assert where in failing(report)
    assert "signature" not in failing(report)


@pytest.mark.parametrize("field", ["made", "model", "operations", "weights", "norm", "layers", "margins", "inputs"])
def test_every_change_breaks_the_signature(handed: Handed, tmp_path: Path, field: str) -> None:
    def change(content: dict[str, Any]) -> None:
        place: Any = content
        while isinstance(place, dict | list) and place:  # the first number or word inside the field
            key: Any = field if place is content else (next(iter(place)) if isinstance(place, dict) else 0)
            holder, place = place, place[key]
        holder[key] = "x" if isinstance(place, str) else 7

    assert "signature" in failing(check(handed, handed.changed(tmp_path / "c.json", change, sign=False)))


def test_another_signer_is_refused(handed: Handed) -> None:
    signer = check(handed, handed.certificate).signer
    assert signer is not None
    assert check(handed, handed.certificate, signer=signer.upper()).word == "verified"
    assert "not by dead:beef" in failing(check(handed, handed.certificate, signer="dead:beef"))["signer"]


def test_other_weights_are_refused(handed: Handed, tmp_path: Path) -> None:
    content = bytearray(handed.weights.read_bytes())
    content[-1] ^= 1
    (tmp_path / "changed.safetensors").write_bytes(content)
    (tmp_path / "cut.safetensors").write_bytes(content[:-1])
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 2**40]}}).encode()
    (tmp_path / "beyond.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    (tmp_path / "endless.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    (tmp_path / "short.safetensors").write_bytes(b"1234")
    for name, says in {
        "changed": "is not the one that was certified",
        "cut": "not a whole safetensors file",
        "beyond": "outside of the file",
        "endless": "its header should have",
        "short": "not a whole safetensors file",
        "missing": "No such file",
    }.items():
        found = failing(check(handed, handed.certificate, weights=tmp_path / f"{name}.safetensors"))
        assert says in found["weights"], name


def test_what_is_not_a_certificate_is_refused_in_a_sentence(handed: Handed, tmp_path: Path) -> None:
    text = handed.certificate.read_text()
    for says, content in {
        "not a whole certificate": text[: len(text) // 2],
        "every number must be finite": text.replace('"radius": 0.05', '"radius": NaN'),
        "of version 3": text.replace('"version": 2', '"version": 3'),
        "a name stands twice": text.replace('"version": 2', '"version": 2, "version": 2'),
        "no usable 'margins'": text.replace('"margins"', '"margin"'),
        "but not a modelkeep certificate": "[]",
    }.items():
        (tmp_path / "c.json").write_text(content)
        assert says in failing(check(handed, tmp_path / "c.json"))["certificate"]
    assert "cannot be read" in failing(check(handed, tmp_path / "none.json"))["certificate"]


def test_numbers_beyond_all_bounds_are_not_signed(handed: Handed, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(handed.certificate.read_text().replace('"radius": 0.05', '"radius": 1e999'))
    assert "signature" in failing(check(handed, tmp_path / "c.json"))


def test_what_is_not_given_is_not_said_to_hold(handed: Handed) -> None:
    report = verifier.verify(handed.certificate)
    assert {check.name for check in report.checks if check.status == "not checked"} == {
        *("signer", "weights", "data", "labels", "layers", "margins", "logits")
    }
    assert report.shown is None
    assert (report.word, report.exit_code) == ("consistent", 3)
    assert "not shown: signer, weights" in report.verdict
    some = check(handed, handed.certificate, data=verifier.Given(handed.inputs[:3]))
    assert "3 rows" in failing(some)["data"]
    assert "logits" in failing(check(handed, handed.certificate, data=verifier.Given(handed.inputs[:3] / 2)))


# Alone.


def test_it_imports_nothing_but_numpy_and_the_standard_library() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "cryptography"}
    for path in HOME.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert {name.partition(".")[0] for name in names} <= allowed, path
            assert not (isinstance(node, ast.ImportFrom) and node.level > 1), f"{path} reaches out of its folder"


def test_it_runs_alone_where_neither_torch_nor_modelkeep_are(handed: Handed, tmp_path: Path) -> None:
    shutil.copytree(HOME, tmp_path / "verifier", ignore=shutil.ignore_patterns("__pycache__"))
    assert handed.data.y is not None
    np.savez(tmp_path / "inputs.npz", x=handed.data.x, y=handed.data.y, classes=np.array(handed.data.classes))
    program = (
        "import sys, runpy\n"
        "sys.modules['torch'] = sys.modules['modelkeep'] = None\n"
        "sys.path.insert(0, '.')\n"
        "runpy.run_module('verifier', run_name='__main__')\n"
    )
    arguments = [str(handed.certificate), "--weights", str(handed.weights), "--data", "inputs.npz"]
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(
        [*command, "--signer", handed.signer], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert "VERIFIED" in ran.stdout
    refused = subprocess.run([*command, "--signer", "1", "--json"], cwd=tmp_path, capture_output=True, timeout=120)
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["word"] == "refused"


def test_as_a_module_it_does_not_load_torch(handed: Handed) -> None:
    program = (
        "import sys, runpy\n"
        "sys.modules['torch'] = None\n"
        "runpy.run_module('modelkeep.certify.verifier', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", program, str(handed.certificate), "--weights", str(handed.weights)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 3, ran.stderr  # not everything was shown
    assert "CONSISTENT" in ran.stdout
