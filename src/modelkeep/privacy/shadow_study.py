"""Shadow models as trials of a study: in several processes, once and for all, and only what is missing after a crash.

A trial is bound to the hashes of the target and of the pool, and to the recipe. Each trains a few shadows as a stack,
and leaves their weights in its folder; its value has their SHA-256.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from modelkeep.core.data import Data
from modelkeep.core.errors import StudyError, bad_parameter
from modelkeep.core.files import replace_file
from modelkeep.core.model import Model
from modelkeep.privacy.shadows import Shadows, plan_shadows, train_planned
from modelkeep.study import Ledger, Study, Trial, run, trial, workdir
from modelkeep.study.study import Engine
from modelkeep.training import Recipe

_TARGET, _POOL, _TRAINED = "target.safetensors", "pool.safetensors", "shadows.safetensors"


@trial("privacy/shadows", version=1)
def train_part(
    *, seed: int, target: str, pool: str, recipe: dict[str, Any], count: int, first: int, number: int
) -> dict[str, str]:
    """Train the shadows `first` to `first + number` of a plan, and leave their weights in the trial's folder."""
    given = workdir().parent / _folder(target, pool)
    model = Model.load(given / _TARGET)
    tensors = load_file(given / _POOL)
    records = Data(tensors["x"], tensors["y"], model.classes)
    if (model.fingerprint(), records.fingerprint()) != (target, pool):
        raise StudyError(f"The target or the records in {given} changed since the study began. Start it again.")
    plan = plan_shadows(len(records), count, seed).part(first, number)
    trained = train_planned(model, records, Recipe.from_json(recipe), plan)
    path = workdir() / _TRAINED
    states = [each.module.state_dict() for each in trained]
    with replace_file(path) as unfinished:
        save_file({f"{i}/{n}": t.contiguous() for i, state in enumerate(states) for n, t in state.items()}, unfinished)
    return {"sha256": sha256(path.read_bytes()).hexdigest()}


@dataclass(frozen=True)
class StudyTrainer:
    """Trains shadows as trials, `stacked` of them in each; give it as `Knowledge(…, trainer=StudyTrainer(ledger))`.

    The target must be one that can be saved: of an architecture that its card names.
    """

    ledger: Ledger
    engine: Engine | None = None
    stacked: int = 8

    def __post_init__(self) -> None:
        if self.stacked < 1:
            raise bad_parameter("StudyTrainer", "stacked", "at least 1 shadow in each trial", self.stacked)

    def __call__(self, target: Model, pool: Data, recipe: Recipe, count: int, seed: int) -> Shadows:
        plan = plan_shadows(len(pool), count, seed)
        bound: dict[str, Any] = {
            "target": target.fingerprint(),
            "pool": pool.fingerprint(),
            "recipe": recipe.to_json(),
            "count": count,
        }
        parts = range(0, count, self.stacked)
        trials = [
            Trial.of(train_part, {**bound, "first": first, "number": min(self.stacked, count - first)}, seed)
            for first in parts
        ]
        given = self.ledger.workdir(trials[0]).parent / _folder(bound["target"], bound["pool"])
        given.mkdir(parents=True, exist_ok=True)
        target.save(given / _TARGET)
        with replace_file(given / _POOL) as unfinished:
            save_file({"x": pool.rows(range(len(pool))).contiguous(), "y": pool.y.contiguous()}, unfinished)
        name = f"shadows-{bound['target'][:8]}-{bound['pool'][:8]}-{count}-seed-{seed}"
        result = run(Study(name, trials), self.ledger, self.engine)
        models: list[Model] = []
        for each, record in zip(trials, result.records, strict=True):
            if record.state != "done":
                raise StudyError(f"The shadows of the study '{name}' could not be trained: {record.error}")
            models += _read(self.ledger.workdir(each) / _TRAINED, record.value["sha256"], target, each)
        return Shadows(tuple(models), pool, plan.inside(len(pool)))


def _read(path: Path, wanted: str, target: Model, made: Trial) -> list[Model]:
    """The networks of a trial, if their file is the one that the trial wrote."""
    if not path.is_file() or sha256(path.read_bytes()).hexdigest() != wanted:
        raise StudyError(f"{path} is gone or was changed since it was written. Use a new ledger, to train anew.")
    tensors = load_file(path)
    models = []
    for i in range(made.parameters["number"]):
        model = Model.from_card(copy.deepcopy(target.module), target.card, target.device)
        own: dict[str, torch.Tensor] = {
            name.partition("/")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{i}/")
        }
        model.module.load_state_dict(own)
        for parameter in model.module.parameters():
            parameter.requires_grad_(True)
        models.append(model)
    return models


def _folder(target: str, pool: str) -> str:
    return f"shadows-of-{sha256(f'{target}/{pool}'.encode()).hexdigest()[:16]}"
