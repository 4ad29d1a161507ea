"""Checkpoints: a run that was stopped, at any moment and in any way, ends with the same bits as one that was not."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.core.errors import CheckpointError
from modelkeep.training import SGD, Adam, EarlyStop, Fitted, Recipe, RMSProp, Step, cross_entropy, fit
from processes import PATIENCE

Make = Callable[[], Model]
LIVES = Path(__file__).parent / "lives.py"
RECIPE = Recipe(epochs=4, batch_size=20, learning_rate=1e-2, evaluate_every=3)


class Stopped(Exception):
    pass


class Drifting:
    """Cross-entropy on inputs that drift: keeps a tensor and a number from step to step, and draws noise."""

    name = "drifting"

    def __init__(self, stop_at: int = -1, stop: Callable[[], None] | None = None) -> None:
        self.drift, self.calls = torch.zeros(1, 8, 8), 0
        self.stop_at, self.stop = stop_at, stop

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        if step.number == self.stop_at and self.stop is not None:
            self.stop()
        self.calls += 1
        self.drift = 0.9 * self.drift + 0.01 * torch.randn(self.drift.shape, generator=step.generator)
        return cross_entropy(model, x + self.drift, y, step) * (1 + 0.01 * self.calls)

    def state_dict(self) -> dict[str, Any]:
        return {"drift": self.drift, "calls": self.calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drift, self.calls = state["drift"], state["calls"]


def fail() -> None:
    raise Stopped


def bits(model: Model) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.module.state_dict().items()}


@pytest.mark.parametrize(
    "recipe",
    [
        replace(RECIPE, optimizer=SGD()),
        replace(RECIPE, optimizer=SGD(momentum=0.9, nesterov=True)),
        replace(RECIPE, optimizer=Adam(decoupled=True, weight_decay=0.1)),
        replace(RECIPE, optimizer=RMSProp(momentum=0.5), early_stop=EarlyStop(2, "accuracy")),
        replace(RECIPE, sampling="poisson", replays=2, steps=18, epochs=None, trainable=("0", "6")),
    ],
    ids=["sgd", "nesterov", "adamw", "rmsprop, early stop", "poisson"],
)
def test_resumed_is_bit_identical(recipe: Recipe, fresh: Make, shapes: Data, tmp_path: Path) -> None:
    straight = fresh()
    expected = fit(straight, shapes, Drifting(), recipe, seed=0, held_out=shapes)
    for stop_at in range(1, expected.history[-1].step, 4):
        path = tmp_path / f"{stop_at}.safetensors"
        for objective in (Drifting(stop_at, fail), Drifting(min(stop_at + 3, 17), fail)):
            with pytest.raises(Stopped):
                fit(fresh(), shapes, objective, recipe, seed=0, held_out=shapes, checkpoint=path, checkpoint_seconds=0)
        resumed = fresh()
        found = fit(resumed, shapes, Drifting(), recipe, seed=0, held_out=shapes, checkpoint=path)
        assert found.history == expected.history
        assert bits(resumed) == bits(straight)
        assert (found.stopped, found.best, found.model) == (expected.stopped, expected.best, expected.model)


def test_killed_again_and_again_at_any_moment(tmp_path: Path) -> None:
    def run(name: str, seed: int) -> tuple[bytes, str]:
        command = [sys.executable, str(LIVES), str(tmp_path / f"{name}.checkpoint"), str(tmp_path / name), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return (tmp_path / name).read_bytes(), done.stdout

    whole, _ = run("whole", -1)
    killed, times = run("killed", 1)
    assert killed == whole
    assert int(times) >= 5


def test_ctrl_c_waits_for_the_step_and_leaves_a_checkpoint(fresh: Make, shapes: Data, tmp_path: Path) -> None:
    straight, interrupted = fresh(), fresh()
    expected = fit(straight, shapes, Drifting(), RECIPE, seed=0, held_out=shapes)
    path = tmp_path / "run.safetensors"
    before = signal.getsignal(signal.SIGINT)
    pressing = Drifting(7, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, shapes, pressing, RECIPE, seed=0, held_out=shapes, checkpoint=path)
    assert signal.getsignal(signal.SIGINT) is before
    interrupted.require_eval()
    # As in a notebook: the same model object, which now holds the weights of step 8, goes on.
    found = fit(interrupted, shapes, Drifting(), RECIPE, seed=0, held_out=shapes, checkpoint=path)
    assert bits(interrupted) == bits(straight)
    assert found.history == expected.history
    assert found.provenance.model == expected.provenance.model


def test_a_finished_run_is_not_run_again(fresh: Make, shapes: Data, tmp_path: Path) -> None:
    def run(model: Model, objective: Drifting) -> Fitted:
        return fit(model, shapes, objective, RECIPE, seed=0, checkpoint=tmp_path / "run")

    first, second = fresh(), fresh()
    expected, found = run(first, Drifting()), run(second, Drifting(0, fail))
    assert bits(first) == bits(second)
    assert expected.history == found.history


def test_the_checkpoint_of_another_run_is_refused(fresh: Make, shapes: Data, tmp_path: Path) -> None:
    path = tmp_path / "run"
    fit(fresh(), shapes, cross_entropy, RECIPE, seed=0, checkpoint=path)
    content = path.read_bytes()
    other = fresh()
    next(other.module.parameters()).data[0] += 1

    def refused(match: str, model: Model | None = None, **changed: Any) -> None:
        given: dict[str, Any] = {"data": shapes, "objective": cross_entropy, "recipe": RECIPE, "seed": 0} | changed
        data, objective, recipe = given.pop("data"), given.pop("objective"), given.pop("recipe")
        with pytest.raises(CheckpointError, match=match):
            fit(model or fresh(), data, objective, recipe, **given, checkpoint=path)

    refused("another run: seed was 0 and is now 1", seed=1)
    refused("recipe.batch_size was 20 and is now 21", recipe=replace(RECIPE, batch_size=21))
    refused("data was", data=shapes.take(torch.arange(89, -1, -1)))
    refused("held_out was null", held_out=shapes)
    refused('objective was .* is now "drifting"', objective=Drifting())
    refused("model was", model=other)
    assert path.read_bytes() == content


def test_a_damaged_checkpoint_is_refused_by_name(fresh: Make, shapes: Data, tmp_path: Path) -> None:
    path = tmp_path / "run"
    fit(fresh(), shapes, cross_entropy, RECIPE, seed=0, checkpoint=path)
    whole = path.read_bytes()
    cuts = [whole[:n] for n in (0, 1, 8, 100, len(whole) // 2, len(whole) - 1)]
    flips = [whole[:n] + bytes([whole[n] ^ 4]) + whole[n + 1 :] for n in range(9, len(whole), len(whole) // 60)]
    for damaged in [*cuts, *flips, whole + b"x", b"not a checkpoint at all"]:
        path.write_bytes(damaged)
        model = fresh()
        before = bits(model)
        with pytest.raises(CheckpointError, match=r"run is damaged or not a checkpoint .*Delete it"):
            fit(model, shapes, cross_entropy, RECIPE, seed=0, checkpoint=path)
        assert bits(model) == before


def test_a_full_disk_stops_the_run_and_keeps_the_last_checkpoint(fresh: Make, shapes: Data, tmp_path: Path) -> None:
    path = tmp_path / "run"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_the_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))

    straight = fresh()
    fit(straight, shapes, Drifting(), RECIPE, seed=0)
    objective = Drifting(9, fill_the_disk)
    try:
        with pytest.raises(CheckpointError, match=r"run cannot be written: .*earlier checkpoint.*is untouched"):
            fit(fresh(), shapes, objective, RECIPE, seed=0, checkpoint=path, checkpoint_seconds=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
    resumed = fresh()
    fit(resumed, shapes, Drifting(), RECIPE, seed=0, checkpoint=path)
    assert bits(resumed) == bits(straight)


def test_a_path_that_cannot_be_written_is_noticed_before_training(fresh: Make, shapes: Data, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="cannot be"):
        fit(fresh(), shapes, Drifting(0, fail), RECIPE, seed=0, checkpoint=tmp_path / "file" / "run")


def test_the_file_is_safetensors_and_json(fresh: Make, shapes: Data, tmp_path: Path) -> None:
    from safetensors import safe_open

    fit(fresh(), shapes, Drifting(), RECIPE, seed=0, checkpoint=tmp_path / "deep" / "er" / "run")
    with safe_open(tmp_path / "deep" / "er" / "run", "pt") as file:
        names, metadata = set(file.keys()), file.metadata()
    assert {"module/0.weight", "module/1.running_mean", "objective/drift"} <= names
    state = json.loads(metadata["state"])
    assert state["values"]["step"] == 20
    assert state["values"]["others"]["objective/calls"] == 20
    assert state["identity"]["recipe.epochs"] == 4
