"""Certificates: what they say is what was found, they are whole or not there, and the key stays private."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from certify.certificates import digits, digits_model
from modelkeep import Data, Model
from modelkeep.certify import verifier
from modelkeep.certify.certificate import make_certificate
from modelkeep.certify.certification import Certify
from modelkeep.certify.gloro import GloRoNet
from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard
from modelkeep.certify.schema import Certificate
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.norms import Norm
from modelkeep.core.signing import Signer


def linear(bias: bool = True) -> Model:
    """f_j - f_i is linear, so that K_ij is the length of the difference of two rows."""
    module = nn.Linear(2, 3, bias=bias)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
        if bias:
            module.bias.zero_()
    return Model(module, input_shape=(2,), classes=("a", "b", "c"), bounds=None)


POINTS = Data(torch.tensor([[1.0, 0.5], [1.0, 0.7], [-1.0, -1.0]]), torch.tensor([0, 1, 2]), ("a", "b", "c"))


def certificate_of(model: Model, *, radius: float = 0.1, labelled: bool = True) -> Certificate:
    return make_certificate(Certify(radius=radius), model, POINTS, labelled=labelled)


def test_radii_of_a_linear_model_are_distances_to_its_boundaries() -> None:
    made = certificate_of(linear())
    assert made.margins[0][1] == pytest.approx(5)
    assert made.margins[0][2] == pytest.approx(3)
    # (3 - 2) / 5, then the nearest of (3 - 2.8) / 5 and 3 / 3, then the nearest of 3 / 3 and 4 / 4
    assert [example.radius for example in made.inputs] == pytest.approx([0.2, 0.04, 1.0], rel=1e-4)
    assert [example.predicted for example in made.inputs] == [0, 0, 2]
    assert made.inputs[0].sha256 == sha256(np.array([1.0, 0.5], "<f4").tobytes()).hexdigest()
    assert made.summary.model_dump() == {"examples": 3, "certified": 2, "labelled": 3, "verified": 2}
    accuracy = made.summary.verified_accuracy
    assert accuracy is not None
    assert accuracy.value == pytest.approx(2 / 3)


def test_the_sender_keeps_away_from_the_edge() -> None:
    made = certificate_of(linear())
    assert all(example.radius < exact for example, exact in zip(made.inputs, [0.2, 0.04, 1.0], strict=True))  # type: ignore[operator]


def test_without_labels_no_accuracy_is_claimed() -> None:
    made = certificate_of(linear(), labelled=False)
    assert made.summary.verified_accuracy is None
    assert {example.label for example in made.inputs} == {None}


GUARANTEES: dict[str, Guarantee] = {
    "standard": Standard(),
    "top-3": RelaxedTopK(3),
    "top-9": RelaxedTopK(9),
    "affinity": Affinity.of_indices([(0, 6, 8, 9), (1, 7, 4), (3, 5, 8), (2,)], digits(1).classes),
}


@pytest.fixture(scope="module")
def model() -> Model:
    return digits_model()


@pytest.fixture(scope="module")
def weights(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("weights") / "digits.safetensors")


@pytest.mark.parametrize("norm", ["l2", "linf", "l1"])
@pytest.mark.parametrize("name", list(GUARANTEES))
def test_the_verifier_agrees_on_every_guarantee_in_every_norm(
    model: Model, weights: Path, name: str, norm: Norm, tmp_path: Path
) -> None:
    data = digits(20)
    radius = {"l2": 0.1, "linf": 0.001, "l1": 0.01}[norm]
    made = make_certificate(Certify(radius=radius, norm=norm, guarantee=GUARANTEES[name]), model, data)
    signer = Signer.at(tmp_path / "key.pem")
    path = made.sign(signer).write(tmp_path / "c.json")
    given = verifier.Given(data.x.numpy(), data.y.numpy(), data.classes)
    report = verifier.verify(path, weights=weights, data=given, signer=signer.public_key)
    assert not [check for check in report.checks if check.status != "holds"]
    assert report.claimed == report.shown == made.summary.certified > 0


@pytest.mark.parametrize("empty", [RelaxedTopK(3), RelaxedTopK(99), Affinity([("a", "b", "c")], ("a", "b", "c"))])
def test_a_promise_that_every_answer_keeps_is_refused(empty: Guarantee) -> None:
    """A set of all classes holds every answer, at any radius."""
    with pytest.raises(InputError, match="promises nothing about a model of 3 classes"):
        make_certificate(Certify(radius=0.1, guarantee=empty), linear(), POINTS)
    with pytest.raises(InputError, match="promises nothing about a model of 3 classes"):
        GloRoNet(linear(), 0.1, empty)


def test_it_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    made = certificate_of(linear()).sign(Signer.at(tmp_path / "key.pem"))
    assert Certificate.model_validate_json(made.write(tmp_path / "c.json").read_bytes()) == made


class Shifted(nn.Module):
    """A network with a weight that no file holds."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 2))
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.ones(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight, self.shift)


def test_what_cannot_be_certified_is_refused() -> None:
    with pytest.raises(InputError, match="'radius' parameter"):
        certificate_of(linear(), radius=0.0)
    with pytest.raises(ModelError, match="'shift' is in no state_dict"):
        certificate_of(Model(Shifted(), input_shape=(2,), classes=POINTS.classes, bounds=None))
    with pytest.raises(ModelError):
        certificate_of(Model(nn.Linear(2, 3).bfloat16(), input_shape=(2,), classes=POINTS.classes))


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    path = certificate_of(linear()).write(tmp_path / "c.json")
    old = path.read_bytes()
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from modelkeep.certify.schema import Certificate\n"
        "made = Certificate.model_validate_json(Path(sys.argv[1]).read_bytes())\n"
        "Path.chmod = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"  # when all is written, before it is moved
        "made.model_copy(update={'radius': 9.0}).write(Path(sys.argv[1]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], timeout=120)
    assert killed.returncode == -9
    assert path.read_bytes() == old
    certificate_of(linear(), radius=0.2).write(path)
    assert json.loads(path.read_text())["radius"] == 0.2
    assert os.listdir(tmp_path) == ["c.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file"):
        certificate_of(linear()).write(tmp_path / "none" / "c.json")


def test_a_factory_without_weights_is_untrained_in_its_certificate_too(tmp_path: Path) -> None:
    sizes = {"input_shape": [1, 8, 8], "classes": 10}
    drawn = Model.load("modelkeep.architectures:small_cnn", arguments=sizes, input_shape=(1, 8, 8), classes=10)
    assert drawn.untrained
    made = make_certificate(Certify(radius=0.1), drawn, digits(4)).sign(Signer.at(tmp_path / "key.pem"))
    assert "untrained" in json.loads(made.write(tmp_path / "c.json").read_text())["model"]["warnings"][0]
    weights = drawn.save(tmp_path / "w.safetensors")
    assert verifier.verify(tmp_path / "c.json", weights=weights).checks[0].status == "holds"
    trained = certificate_of(linear()).sign(Signer.at(tmp_path / "key.pem"))
    assert "warnings" not in json.loads(trained.write(tmp_path / "t.json").read_text())["model"]
