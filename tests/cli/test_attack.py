"""`modelkeep attack`: the files, the figures in them, the curve, and a run that is stopped and goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cli.running import Run
from modelkeep import Model, Result
from modelkeep.attack import PGD, Upset
from modelkeep.core.registry import declarations
from modelkeep.report import AttackReport
from modelkeep.zoo import datasets

QUICK = ("--data", "digits", "--method", "pgd", "--radius", "0.1", "--examples", "60", "--steps", "10")


def report_in(folder: Path) -> AttackReport:
    found = Result.from_json((folder / "attack.json").read_text())
    assert isinstance(found, AttackReport)
    return found


def test_it_writes_a_page_pictures_figures_and_inputs(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("attack", digits_model, *QUICK, "--json")
    assert run.code == 0, run.err
    out = tmp_path / "modelkeep-out"
    assert {path.name for path in out.iterdir()} == {
        *("index.html", "attack.html", "attack.json", "attack.png", "attack-curve.png", "adversarial.npz")
    }
    assert json.loads(run.out) == json.loads((out / "attack.json").read_text())
    assert all(np.asarray(Image.open(path)).std() > 1 for path in out.glob("*.png")), "a picture is empty"
    model, test = Model.load(digits_model), datasets.load("digits", "test").sample(60, seed=0)
    expected = PGD(radius=0.1, steps=10)(model, test, seed=0)
    found = report_in(out)
    assert found.robust == expected.robust_accuracy
    assert found.curve is not None
    assert found.curve.accuracy[-1] == expected.robust_accuracy
    assert found.curve.accuracy[0] == expected.clean_accuracy
    again = datasets.open(str(out / "adversarial.npz"))
    assert np.array_equal(again.x.numpy(), expected.adversarial.numpy())
    assert (model.predict(again.x) == again.y).double().mean() == found.robust.value
    page = (out / "attack.html").read_text()
    assert "Attacking digits.safetensors on digits" in page


def test_the_smallest_change_and_a_table(modelkeep: Run, cancer_model: Path, tmp_path: Path) -> None:
    run = modelkeep("attack", cancer_model, "--data", "breast-cancer", "--attack", "deepfool", "--examples", "40")
    assert run.code == 0, run.err
    found = report_in(tmp_path / "modelkeep-out")
    assert found.size == "the smallest change"
    assert found.curve is not None
    values = [estimate.value for estimate in found.curve.accuracy]
    assert values == sorted(values, reverse=True)


def test_a_target_is_what_the_answers_become(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    run = modelkeep("attack", digits_model, *QUICK[:4], "--radius", "0.5", "--target", "3", "--examples", "20")
    assert run.code == 0, run.err
    with np.load(tmp_path / "modelkeep-out" / "adversarial.npz") as arrays:
        assert (arrays["answer"][arrays["success"]] == 3).all()
        assert arrays["success"].any()


def test_of_data_sorted_by_class_it_attacks_more_than_the_first(
    modelkeep: Run, digits_model: Path, tmp_path: Path
) -> None:
    test = datasets.load("digits", "test")
    test = test.take(test.y.argsort())
    np.savez(tmp_path / "sorted", x=test.x.numpy(), y=test.y.numpy(), classes=np.array(test.classes))
    options = ("--data", "sorted.npz", "--method", "fgsm", "--radius", "0.1", "--examples", "30", "--no-curve")
    run = modelkeep("attack", digits_model, *options)
    assert run.code == 0, run.err
    with np.load(tmp_path / "modelkeep-out" / "adversarial.npz") as arrays:
        assert len(set(arrays["y"].tolist())) > 5


def test_all_attacks_are_listed(modelkeep: Run) -> None:
    run = modelkeep("attack", "--list")
    assert run.code == 0
    assert all(name in run.out for name in declarations("attack"))


def test_universal_perturbations_have_a_result_of_their_own(modelkeep: Run, cancer_model: Path, tmp_path: Path) -> None:
    run = modelkeep("attack", cancer_model, "--data", "breast-cancer", "--method", "upset", "--radius", "0.5")
    assert run.code == 0, run.err
    assert {path.name for path in (tmp_path / "modelkeep-out").iterdir()} == {
        "index.html",
        "attack.html",
        "attack.json",
        "attack.png",
    }
    found = Result.from_json((tmp_path / "modelkeep-out" / "attack.json").read_text())
    assert isinstance(found, Upset)
    assert found.radius == 0.5


def test_help_teaches_the_settings_of_a_method(modelkeep: Run) -> None:
    run = modelkeep("attack", "--method", "cw", "--help")
    assert run.code == 0
    shown = " ".join(run.out.split())
    assert "Settings of cw" in shown
    assert "--confidence" in shown
    assert "--radius" not in modelkeep("attack", "--help").out.split("Examples")[0]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--method", "magic"), 2, "There is no attack 'magic'"),
        (("--method", "pgd"), 2, "The attack 'pgd' needs --radius"),
        (("--method", "deepfool", "--radius", "1"), 2, "There is no option --radius."),
        (("--method", "deepfool", "--norm", "l1"), 2, "--norm must be one of l2, linf. Got 'l1'."),
        (("--method", "fgsm", "--radius", "1", "--steps", "3"), 2, "There is no option --steps."),
    ],
    ids=["no such attack", "no radius", "no radius wanted", "no such norm", "no such setting"],
)
def test_what_is_not_heeded_is_refused(
    modelkeep: Run, digits_model: Path, options: tuple[str, ...], code: int, says: str
) -> None:
    run = modelkeep("attack", digits_model, "--data", "digits", *options)
    assert run.code == code
    assert says in " ".join(run.err.replace("│", " ").split())


def test_without_a_model_it_says_what_to_do(modelkeep: Run) -> None:
    run = modelkeep("attack")
    assert run.code == 2
    assert "modelkeep attack MODEL --data DATA" in run.err


def test_a_run_that_was_stopped_goes_on(digits_model: Path, tmp_path: Path) -> None:
    """A real process, a real Ctrl-C, and the same inputs at the end as without it."""
    arguments = ["attack", str(digits_model), "--data", "digits", "--method", "pgd", "--radius", "0.03", "--no-curve"]
    arguments += ["--steps", "100", "--batch-size", "4", "--examples", "32", "--out"]
    # State is written after every batch, so that one knows when there is some.
    often = "from modelkeep.attack import checkpoint; checkpoint.SECONDS = 0; from modelkeep.cli import main; main()"
    command = [sys.executable, "-c", often, *arguments]
    with subprocess.Popen([*command, tmp_path / "stopped"], stderr=subprocess.PIPE, text=True) as stopped:
        states: set[bytes] = set()  # the first is written before there is anything to keep
        while stopped.poll() is None and len(states) < 2:
            states |= {path.read_bytes() for path in tmp_path.glob("stopped/.attacks/*.attack")}
            time.sleep(0.01)
        stopped.send_signal(signal.SIGINT)
        _, said = stopped.communicate()
    assert stopped.returncode == 130, said
    assert "the same command goes on" in said
    assert list((tmp_path / "stopped" / ".attacks").glob("*.attack"))
    for folder in ("stopped", "whole"):
        subprocess.run([*command, tmp_path / folder], check=True, capture_output=True)
    assert not (tmp_path / "stopped" / ".attacks").exists()
    ends = [tmp_path / folder / "adversarial.npz" for folder in ("stopped", "whole")]
    with np.load(ends[0]) as first, np.load(ends[1]) as second:
        assert all(np.array_equal(first[name], second[name]) for name in first.files)
