"""A trial of the supervised studies: train a network, take a part away, and retrain it by a procedure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch

from modelkeep.completion.curve import Curve
from modelkeep.completion.hardness import Retraining
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures import PROCEDURES
from modelkeep.completion.recording import record
from modelkeep.completion.retraining import RetrainedModel, train_from_scratch
from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.model import Model
from modelkeep.papers.martic2018.settings import IMAGENET, Setting
from modelkeep.study.device import best_device
from modelkeep.study.folder import shared_folder, workdir
from modelkeep.study.names import trial
from modelkeep.study.record import Record
from modelkeep.study.trials import Trial, canonical
from modelkeep.training import Recipe, evaluate
from modelkeep.training.batches import derive_seed
from modelkeep.zoo import architectures, datasets
from modelkeep.zoo.datasets import cache

PASSES = 50
"""How many passes T6's attacker wrote down, each of one batch."""


@dataclass(frozen=True, eq=False)
class Owner:
    """The data, the trained network and the curve of its training."""

    data: Data
    held_out: Data
    trained: RetrainedModel


@trial("martic2018/classifier-completion", formerly=("modelkeep.completion.studies.supervised:retrain",))
def retrain(*, seed: int, setting: dict[str, Any], part: dict[str, Any], procedure: str) -> dict[str, Any]:
    """Complete `part` of the network that was trained with this seed: both curves, and what a step takes.

    The retraining draws other numbers than the training, or it would begin where that began.
    """
    owner = _owner(canonical(setting), seed, workdir().parent)
    recipe, again = Recipe.from_json(setting["retraining"]), derive_seed(seed, "retraining")
    problem = Problem(owner.trained.model, Part.from_json(part), owner.data, owner.held_out, recipe)
    if procedure == "T6":
        recording = record(
            problem.model,
            problem.part,
            problem.data,
            passes=PASSES,
            batch_size=recipe.batch_size,
            seed=again,
            training=True,
        )
        problem = replace(problem, recording=recording)
    checkpoint = workdir() / "retraining"
    resumed = any(workdir().glob("retraining*"))
    began = perf_counter()
    retrained = PROCEDURES[procedure](problem, seed=again, checkpoint=checkpoint)
    seconds = perf_counter() - began - _evaluations(retrained, problem)
    return {
        "original": owner.trained.curve.to_json(),
        "retrained": retrained.curve.to_json(),
        "seconds_per_step": None if resumed else max(0.0, seconds) / retrained.curve.steps[-1],
    }


def trials(
    settings: Iterable[Setting], parts: Sequence[Part], procedures: Sequence[str], seeds: Sequence[int]
) -> list[Trial]:
    """One per setting, part, procedure and seed."""
    return [
        Trial.of(retrain, {"setting": setting.to_json(), "part": part.to_json(), "procedure": procedure}, seed)
        for setting in settings
        for seed in seeds
        for part in parts
        for procedure in procedures
    ]


def retrainings(records: Iterable[Record], network: str) -> list[Retraining]:
    """What the finished trials of a network gave; the task that they share is its data."""
    done = [
        each
        for each in records
        if each.state == "done" and each.parameters.get("setting", {}).get("network") == network
    ]
    return [
        Retraining(
            part=each.parameters["part"]["name"],
            procedure=each.parameters["procedure"],
            seed=each.seed,
            original=Curve.from_json(each.value["original"]),
            retrained=Curve.from_json(each.value["retrained"]),
            seconds_per_step=each.value["seconds_per_step"],
            setting=each.parameters["setting"]["data"],
        )
        for each in done
    ]


@lru_cache(maxsize=1)
def _owner(setting_text: str, seed: int, folder: Path) -> Owner:
    """Trained by the first trial that needs it; `folder` is the ledger's, whose other trials take it over."""
    setting = Setting(**json.loads(setting_text))
    data, held_out = _read(setting.data, "train"), _read(setting.data, "test")
    data, held_out = (
        some.sample(count, 0) if count < len(some) else some
        for some, count in ((data, setting.examples), (held_out, setting.held_out))
    )
    with shared_folder("original", [setting.to_json(), seed]) as kept:
        trained = train_from_scratch(
            build_network(setting, data),
            data,
            held_out,
            Recipe.from_json(setting.training),
            seed=seed,
            checkpoint=kept / "training",
        )
    return Owner(data, held_out, trained)


def build_network(setting: Setting, data: Data) -> Model:
    """The network of a setting; its weights are drawn when it is trained."""
    with torch.random.fork_rng(devices=[]):
        module = getattr(architectures, setting.factory)(data.input_shape, len(data.classes), **setting.arguments)
    # Convolutions of few channels are twice as fast with the channels last.
    module = module.to(memory_format=torch.channels_last)
    return Model(module, input_shape=data.input_shape, classes=data.classes, device=best_device())


def _read(name: str, part: Literal["train", "test"]) -> Data:
    """A built-in set; or ImageNet, which may not be passed on, from a folder of the user's."""
    if name != IMAGENET:
        return datasets.load(name, part)
    folder = cache.folder() / IMAGENET / part
    if not folder.is_dir():
        raise DataError(
            f"The paper's size needs ImageNet: put its pictures, a folder per class, into {folder} (or link it there). "
            "They are held in memory as 224×224 floats, 0.6 MB each: take as many as your machine has room for."
        )
    return datasets.open(folder, shape=(3, 224, 224))


def _evaluations(retrained: RetrainedModel, problem: Problem) -> float:
    """The seconds that the evaluations of a run took, by one more: they are not part of its cost."""
    began = perf_counter()
    evaluate(retrained.model, problem.held_out, 4 * problem.recipe.batch_size)
    return len(retrained.curve.steps) * (perf_counter() - began)
