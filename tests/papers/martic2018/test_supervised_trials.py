"""A trial of the supervised studies: the paper's schedules, one original for all trials, ImageNet from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from modelkeep.completion.part import Part
from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.papers.martic2018 import supervised_trials
from modelkeep.papers.martic2018.settings import (
    ALEXNET_PARTS,
    HORIZONTAL,
    Network,
    Setting,
    recipes,
    resnet_parts,
    settings,
)
from modelkeep.papers.martic2018.supervised_trials import _owner, _read, build_network, retrain
from modelkeep.study.folder import working_in
from modelkeep.training import SGD, Recipe, StepDecay
from modelkeep.zoo.architectures import resnet50


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a process keeps for its next trial is not kept for the next test."""
    yield
    _owner.cache_clear()


def tiny() -> dict[str, Any]:
    training = Recipe(steps=30, batch_size=32, learning_rate=3e-3, evaluate_every=3)
    return Setting(
        network="AlexNet", data="digits", factory="small_cnn", arguments={}, examples=300, held_out=100,
        training=training.to_json(), retraining=training.to_json(),
    ).to_json()  # fmt: skip


@pytest.mark.parametrize(
    ("network", "steps", "training", "retraining"),
    [
        (
            "AlexNet",
            120_000,
            ((0, 5e-2), (60_000, 5e-3), (90_000, 5e-4), (105_000, 5e-5)),
            ((0, 5e-2), (30_000, 5e-3), (45_000, 5e-4), (72_500, 5e-5)),
        ),
        ("ResNet", 60_000, ((0, 1e-1), (30_000, 1e-2), (45_000, 1e-3)), ((0, 1e-2), (20_000, 1e-3))),
    ],
)
def test_schedules_are_tables_1_and_2(network: Network, steps: int, training: Any, retraining: Any) -> None:
    [setting] = settings(network, "paper")
    for given, table in ((setting.training, training), (setting.retraining, retraining)):
        recipe = Recipe.from_json(given)
        assert recipe.steps == steps
        assert recipe.batch_size == {"AlexNet": 256, "ResNet": 64}[network]
        assert recipe.optimizer == SGD(momentum=0.9, weight_decay=1e-4)
        assert recipe.learning_rate == StepDecay(table)


@pytest.mark.parametrize("steps", [400, 1_200])
def test_short_schedules_have_the_same_shape(steps: int) -> None:
    training, retraining = recipes("AlexNet", steps, 32)
    assert isinstance(training.learning_rate, StepDecay)
    assert isinstance(retraining.learning_rate, StepDecay)
    assert [start / steps for start, _ in training.learning_rate.table] == [0, 0.5, 0.75, 0.875]
    assert [start / steps for start, _ in retraining.learning_rate.table[:3]] == pytest.approx(
        [0, 0.25, 0.375], abs=0.01
    )
    assert training.evaluate_every == steps // 100


@pytest.mark.parametrize("network", ["AlexNet", "AlexNet small", "AlexNet large", "ResNet"])
def test_networks_have_the_parts_that_are_reset(network: Network) -> None:
    for setting in settings(network, "small") + settings(network, "medium")[:1]:
        shape = (3, 32, 32) if setting.data == "cifar-10" else (1, 28, 28)
        module = build_network(setting, _noise(shape)).module
        parts = resnet_parts("small") if network == "ResNet" else (*ALEXNET_PARTS, *HORIZONTAL)
        assert all(0 < part.count(module) < Part("all", ("",)).count(module) for part in parts)


def test_resnet50s_parts_have_table_4s_counts() -> None:
    network = resnet50((3, 224, 224), 1000)
    counts = [part.count(network) for part in resnet_parts("paper")]
    assert counts == [9_536, 75_008, 379_392, 1_512_448, 6_039_552, 3_938_304, 2_048_000]


def test_the_original_is_trained_once_for_all_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for procedure in ("T1", "T6"):
        with working_in(tmp_path / procedure):
            (tmp_path / procedure).mkdir()
            found[procedure] = retrain(
                seed=1, setting=tiny(), part=Part("Conv 1", ("conv1",)).to_json(), procedure=procedure
            )
        _owner.cache_clear()  # as in another process, which takes the original over from the folder
    assert len(list(tmp_path.glob("original-*"))) == 1
    assert found["T1"]["original"] == found["T6"]["original"]
    assert found["T1"]["original"]["steps"] == list(range(0, 31, 3))
    assert found["T1"]["retrained"]["steps"] == list(range(0, 31, 3))
    assert found["T1"]["retrained"] != found["T6"]["retrained"]
    # The part was away, so the model is worse than it was, and it does not begin as the original did.
    assert found["T1"]["retrained"]["losses"][0] > found["T1"]["original"]["losses"][-1]
    assert found["T1"]["retrained"]["losses"][0] != found["T1"]["original"]["losses"][0]
    assert found["T1"]["seconds_per_step"] >= 0

    with working_in(tmp_path / "T1"):  # tried again: it goes on from its checkpoint, and ends with the same curve
        monkeypatch.setattr(supervised_trials, "evaluate", lambda *given: None)
        again = retrain(seed=1, setting=tiny(), part=Part("Conv 1", ("conv1",)).to_json(), procedure="T1")
    assert again == {**found["T1"], "seconds_per_step": None}


@pytest.mark.parametrize(
    ("network", "part", "steps"), [("AlexNet small", ALEXNET_PARTS[0], 3), ("ResNet", resnet_parts("paper")[5], 1)]
)
def test_the_papers_size_takes_steps_on_a_folder_of_pictures(
    network: Network, part: Part, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODELKEEP_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for name in ("train/cat", "train/dog", "test/cat", "test/dog"):
        folder = tmp_path / "cache" / "imagenet" / name
        folder.mkdir(parents=True)
        Image.fromarray(random.integers(0, 256, (240, 230, 3), dtype=np.uint8)).save(folder / "one.png")
    [setting] = settings(network, "paper")
    values = setting.to_json()
    for name in ("training", "retraining"):
        values[name] |= {"steps": steps, "batch_size": 2, "evaluate_every": 1}
    (tmp_path / "trial").mkdir()
    with working_in(tmp_path / "trial"):
        found = retrain(seed=0, setting=values, part=part.to_json(), procedure="T1")
    assert found["original"]["steps"] == found["retrained"]["steps"] == list(range(steps + 1))
    assert all(0 <= loss <= 1 for loss in found["retrained"]["losses"])


def test_without_imagenet_it_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELKEEP_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="needs ImageNet: put its pictures"):
        _read("imagenet", "train")


def _noise(shape: tuple[int, ...]) -> Data:
    return Data(torch.zeros(10, *shape), torch.arange(10), tuple("0123456789"))
