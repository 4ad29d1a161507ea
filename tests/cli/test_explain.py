"""`modelkeep explain`: the files, the figures in them, and what it says to mistakes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from cli.running import Run
from modelkeep import Model, Result
from modelkeep.explain import ClassScore, Conductance, Contrast, GradCAM, Influence, Line
from modelkeep.report import Explanations
from modelkeep.zoo import datasets

FEW = ["--examples", "4", "--units", "0"]
FAST = [*FEW, "--steps", "5"]


def explained(record: Path) -> Explanations:
    found = Result.from_json(record.read_text())
    assert isinstance(found, Explanations)
    return found


def test_it_writes_a_page_pictures_and_figures(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("explain", digits_model, "--data", "digits", "--why", "3", "--rather-than", "8", "--steps", "5",
                    "--units", "1")  # fmt: skip
    assert run.code == 0, run.err
    out = tmp_path / "modelkeep-out"
    pictures = {path.name for path in out.glob("*.png")}
    assert pictures == {
        "explain-input.png", "explain-conv2_pool.png", "explain-conv2_pool-units.png", "explain-linear1_relu.png",
        "explain-linear1_relu-units.png",
    }  # fmt: skip
    for name in ("explain.html", "explain.json", *pictures):
        assert str(out / name) in run.out
    assert "gap" in run.out
    assert "Influence at input: 40/40" in run.err  # progress, for whoever waits
    assert all(np.asarray(Image.open(out / name)).std() > 1 for name in pictures), "a picture is empty"

    found = explained(out / "explain.json")
    assert [at.place.name for at in found.slices] == ["input", "conv2_pool", "linear1_relu"]
    assert [example.label for example in found.examples] == list("01234567")  # one of each class, as far as 8 go
    for at in found.slices:
        assert [q.quantity for q in at.quantities] == ["class '3'", "class '8'", "class '3' rather than '8'"]
    assert found.slices[0].units == ()
    # "Rather than" is the difference of both, for every unit: influence is linear in the quantity.
    for unit in found.slices[2].units:
        three, eight, rather = (estimate.value for estimate in unit.influence)
        assert rather == pytest.approx(three - eight, abs=1e-5)


def test_the_figures_are_those_of_the_library(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("explain", digits_model, "--data", "digits", "--why", "3", "--slice", "linear1_relu",
                    "--index", "9", "--index", "4", "--json", "--out", "here", *FAST)  # fmt: skip
    assert run.code == 0, run.err
    assert json.loads(run.out) == json.loads((tmp_path / "here" / "explain.json").read_text())
    found = explained(tmp_path / "here" / "explain.json")
    data = datasets.load("digits", "test").take([9, 4])
    line = Line(0.0, count=5)
    model = Model.load(digits_model)
    truth = Influence(slice="linear1_relu", quantity=ClassScore("3"), distribution=line)(model, data, seed=0)
    assert [example.index for example in found.examples] == [9, 4]
    assert [example.label for example in found.examples] == [data.classes[label] for label in data.y.tolist()]
    assert [example.predicted for example in found.examples] == [data.classes[i] for i in truth.predicted.tolist()]
    (at,) = found.slices
    for unit in at.units:
        assert unit.influence[0].value == pytest.approx(float(truth.influence[:, unit.index].mean()), rel=1e-5)
    assert at.quantities[0].value.value == pytest.approx(float(truth.values.mean()), rel=1e-5)
    assert truth.gap is not None
    assert at.quantities[0].gap is not None
    assert at.quantities[0].gap.value == pytest.approx(float(truth.gap.abs().mean()), rel=1e-4, abs=1e-6)


def test_the_same_seed_gives_the_same_files(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    command = ["explain", digits_model, "--data", "digits", "--method", "smooth-grad", *FAST]
    for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert modelkeep(*command, "--out", folder, "--seed", seed).code == 0

    def files(folder: str) -> dict[str, bytes]:
        kept = {path.name: path.read_bytes() for path in sorted((tmp_path / folder).iterdir())}
        return {
            name: re.sub(rb'"seconds": [\d.e-]+|[\d.]+ s(?= of them|[.,])', b"", content)
            for name, content in kept.items()
        }

    assert files("a") == files("b")
    assert files("a")["explain-input.png"] != files("c")["explain-input.png"]


@pytest.mark.parametrize(
    ("method", "over"),
    [
        ("integrated-gradients", "line from 0 at the input, 5 points"),
        ("saliency", "the point"),
        ("smooth-grad", "Gaussian of sigma 0.15 at the input, 5 draws"),
        ("conductance", "line from 0 at the input, 5 points, followed through the slice"),
        ("grad-cam", "the point, the mean of a channel's positions (Grad-CAM)"),
        ("channel-influence", "the point, all positions of a channel"),
    ],
)
def test_every_method_by_its_name(modelkeep: Run, digits_model: Path, tmp_path: Path, method: str, over: str) -> None:
    run = modelkeep("explain", digits_model, "--data", "digits", "--why", "3", "--rather-than", "5", "--slice",
                    "conv2_relu", "--method", method, *(FAST if "5" in over else FEW))  # fmt: skip
    assert run.code == 0, run.err
    (at,) = explained(tmp_path / "modelkeep-out" / "explain.json").slices
    assert at.distribution == over
    assert at.mapped == (method != "channel-influence")
    index = [example.index for example in explained(tmp_path / "modelkeep-out" / "explain.json").examples]
    data, model, quantity = datasets.load("digits", "test").take(index), Model.load(digits_model), Contrast("3", "5")
    if method in ("grad-cam", "conductance"):
        truth = (
            GradCAM(slice="conv2_relu", quantity=quantity)(model, data, seed=0)
            if method == "grad-cam"
            else Conductance(slice="conv2_relu", baseline=0.0, steps=5, quantity=quantity)(model, data, seed=0)
        )
        by_channel = truth.influence.sum(dim=(2, 3)).mean(dim=0)
        for unit in at.units:
            assert unit.influence[2].value == pytest.approx(float(by_channel[unit.index]), rel=1e-4, abs=1e-6)


def test_methods_of_feature_maps_choose_the_last_one(modelkeep: Run, digits_model: Path, cancer_model: Path,
                                                     tmp_path: Path) -> None:  # fmt: skip
    assert modelkeep("explain", digits_model, "--data", "digits", "--method", "grad-cam", *FEW).code == 0
    (at,) = explained(tmp_path / "modelkeep-out" / "explain.json").slices
    assert at.place.name == "conv2_pool"
    run = modelkeep("explain", cancer_model, "--data", "breast-cancer", "--method", "grad-cam", *FEW)
    assert run.code in (2, 4)
    assert "this network has none" in run.err


def test_a_table_is_explained_in_units_of_each_features_spread(modelkeep: Run, tmp_path: Path) -> None:
    """The closed form: f = 3 · metres, told in metres and in millimetres, is the same finding."""
    random = np.random.default_rng(0)
    metres, other = random.normal(size=200), random.normal(size=200)
    y = (3 * metres + other > 0).astype(int)
    for name, scale in (("m", 1.0), ("mm", 1000.0)):
        rows = [f"{m * scale},{o},{'yes' if label else 'no'}" for m, o, label in zip(metres, other, y, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["length,other,label", *rows]))
        (tmp_path / f"{name}.py").write_text(
            "import torch\n"
            "def network():\n"
            "    layer = torch.nn.Linear(2, 2, bias=False)\n"
            f"    layer.weight.data = torch.tensor([[0.0, 0.0], [3.0 / {scale}, 1.0]])\n"
            "    return layer\n"
        )
        run = modelkeep("explain", f"{name}:network", "--data", f"{name}.csv", "--why", "yes", "--out", name, *FAST)
        assert run.code == 0, run.err
    in_metres, in_millimetres = (explained(tmp_path / name / "explain.json").slices[0] for name in ("m", "mm"))
    assert in_metres.per == "standard deviation of the feature"
    for at in (in_metres, in_millimetres):
        assert [unit.name for unit in at.units] == ["length", "other"]
        assert at.units[0].influence[0].value == pytest.approx(3 * metres.std(ddof=1), rel=1e-3)
        assert at.units[1].influence[0].value == pytest.approx(other.std(ddof=1), rel=1e-3)


def test_of_two_classes_both_are_explained(modelkeep: Run, cancer_model: Path, tmp_path: Path) -> None:
    run = modelkeep("explain", cancer_model, "--data", "breast-cancer", "--steps", "5", "--units", "1")
    assert run.code == 0, run.err
    at_input, inner = explained(tmp_path / "modelkeep-out" / "explain.json").slices
    assert [q.quantity for q in inner.quantities] == [
        "class 'benign'", "class 'malignant'", "class 'benign' rather than 'malignant'",
    ]  # fmt: skip
    assert {unit.name for unit in at_input.units} <= set(datasets.load("breast-cancer").features or ())
    assert (tmp_path / "modelkeep-out" / "explain-linear1_relu-units.png").exists()


def test_pictures_of_any_size_without_labels(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for i, size in enumerate([(20, 30), (64, 40)]):
        Image.fromarray(np.random.default_rng(i).integers(0, 255, size=(*size, 3), dtype=np.uint8)).save(
            tmp_path / "photos" / f"{i}.png"
        )
    for source, count in (("photos", 2), (Path("photos") / "1.png", 1)):
        run = modelkeep("explain", digits_model, "--data", source, "--input-shape", "1,8,8", *FAST)
        assert run.code == 0, run.err
        assert "labels are not classes of the model" in run.out
        found = explained(tmp_path / "modelkeep-out" / "explain.json")
        assert [example.label for example in found.examples] == [None] * count  # never a class that nobody gave it


def test_a_folder_may_hold_some_of_the_models_classes(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    data = datasets.load("digits", "test")
    for name in ("6", "3"):
        (tmp_path / "some" / name).mkdir(parents=True)
        picture = (data.of_class(name).x[0, 0] * 255).to(torch.uint8).numpy()
        Image.fromarray(picture).save(tmp_path / "some" / name / "a.png")
    run = modelkeep("explain", digits_model, "--data", "some", *FAST)
    assert run.code == 0, run.err
    examples = explained(tmp_path / "modelkeep-out" / "explain.json").examples
    assert [example.label for example in examples] == ["3", "6"]
    assert [example.predicted for example in examples] == ["3", "6"]


def test_places_are_listed(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("explain", digits_model, "--data", "digits", "--list-slices")
    assert run.code == 0
    assert run.out.split() == list(Model.load(digits_model).slices())
    assert not (tmp_path / "modelkeep-out").exists()


def test_a_module_that_is_called_twice_needs_a_number(modelkeep: Run, tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(
        "import torch\n"
        "class Twice(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        torch.manual_seed(0)\n"
        "        self.inner, self.top = torch.nn.Linear(30, 30), torch.nn.Linear(30, 2)\n"
        "    def forward(self, x):\n"
        "        return self.top(self.inner(torch.tanh(self.inner(x))))\n"
    )
    command = ["explain", "twice:Twice", "--data", "breast-cancer", *FAST]
    run = modelkeep(*command, "--slice", "inner")
    assert run.code in (2, 4)
    assert "called 2 times" in run.err
    run = modelkeep(*command, "--slice", "inner#0", "--slice", "inner#1")
    assert run.code == 0, run.err
    found = explained(tmp_path / "modelkeep-out" / "explain.json")
    assert [(at.place.name, at.place.call) for at in found.slices] == [("inner", 0), ("inner", 1)]
    assert found.slices[0].units != found.slices[1].units
    assert len(list((tmp_path / "modelkeep-out").glob("explain-inner-call-*.png"))) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--why", "nine"], "The model has no class 'nine'."),
        (["--why", "3", "--rather-than", "eight"], "The model has no class 'eight'."),
        (["--why", "3", "--rather-than", "3"], "another class than '3'"),
        (["--rather-than", "8"], "--rather-than 8 needs --why"),
        (["--slice", "conv2_rely"], "Did you mean 'conv2_relu'"),
        (["--slice", "conv2_relu#7"], "there is no call=7"),
        (["--index", "9999"], "--index must be 0 to 358"),
        (["--slice", "linear1_relu", "--method", "grad-cam"], "has units, not channels"),
        (["--out", "file"], "--out must be a folder"),
    ],
)
def test_mistakes_are_one_sentence(modelkeep: Run, digits_model: Path, tmp_path: Path, arguments: list[str],
                                   message: str) -> None:  # fmt: skip
    (tmp_path / "file").touch()
    run = modelkeep("explain", digits_model, "--data", "digits", *FEW, *arguments)
    assert run.code in (2, 4)
    assert message in run.err
    assert run.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_data_of_another_model_is_refused(modelkeep: Run, digits_model: Path) -> None:
    run = modelkeep("explain", digits_model, "--data", "breast-cancer", *FAST)
    assert run.code in (2, 4)
    assert "takes inputs of shape (1, 8, 8)" in run.err


def test_help_teaches(modelkeep: Run) -> None:
    run = modelkeep("explain", "--help")
    assert run.code == 0
    for word in ("--why", "--rather-than", "--slice", "--list-slices", "--method", "grad-cam", "efficientnet-lite0"):
        assert word in run.out


def test_a_network_without_inner_places_is_explained_at_its_input(modelkeep: Run, tmp_path: Path) -> None:
    (tmp_path / "flat.py").write_text("import torch\ndef network():\n    return torch.nn.Linear(30, 2)\n")
    run = modelkeep("explain", "flat:network", "--data", "breast-cancer", *FAST)
    assert run.code == 0, run.err
    found = explained(tmp_path / "modelkeep-out" / "explain.json")
    assert [at.place.name for at in found.slices] == ["input"]


def test_it_stops_cleanly_when_told_to(digits_model: Path, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "modelkeep"), "explain", str(digits_model), "--data", "digits"]
    command += ["--steps", "100000"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        begun = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert "Influence at input" in begun  # it was in the middle of its work
    assert process.returncode == 130
    assert "modelkeep: stopped; what was finished is kept." in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_the_model_is_never_a_pickle(modelkeep: Run, tmp_path: Path) -> None:
    kept: Any = nn.Linear(2, 2).state_dict()
    torch.save(kept, tmp_path / "model.pt")
    run = modelkeep("explain", "model.pt", "--data", "digits")
    assert run.code in (2, 4)
    assert "is a pickle" in run.err
