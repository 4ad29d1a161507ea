"""Shadows as trials are the shadows that this process trains, are trained once, and are bound to what they learned."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modelkeep import Model, ModelKeepError
from modelkeep.privacy import Knowledge, LiRA
from modelkeep.privacy.shadow_study import StudyTrainer
from modelkeep.privacy.shadows import train_shadows
from modelkeep.study import Ledger, Local
from modelkeep.training import Recipe
from modelkeep.zoo import architectures
from privacy.little_world import FEATURES, gaussian_records

RECIPE = Recipe(epochs=3, batch_size=16, learning_rate=0.01)


def savable() -> Model:
    arguments = {"input_shape": [FEATURES], "classes": 2, "hidden": [8]}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = architectures.dense([FEATURES], 2, hidden=[8])
    return Model(
        module,
        input_shape=(FEATURES,),
        classes=("no", "yes"),
        bounds=None,
        architecture="modelkeep.architectures:dense",
        arguments=arguments,
    )


def test_trials_train_the_same_shadows_once(tmp_path: Path) -> None:
    model, pool = savable(), gaussian_records(40, seed=0)
    with Ledger(tmp_path / "ledger.sqlite3") as ledger:
        trainer = StudyTrainer(ledger, Local(processes=1), stacked=2)
        found = trainer(model, pool, RECIPE, 4, 7)
        here = train_shadows(model, pool, RECIPE, count=4, seed=7)
        assert torch.equal(found.inside, here.inside)
        for one, two in zip(found.models, here.models, strict=True):
            torch.testing.assert_close(one.probs(pool.x), two.probs(pool.x), rtol=1e-4, atol=1e-5)
        files = list(tmp_path.rglob("shadows.safetensors"))
        assert len(files) == 2
        written = {path: path.stat().st_mtime_ns for path in files}
        again = trainer(model, pool, RECIPE, 4, 7)
        assert {path: path.stat().st_mtime_ns for path in files} == written
        assert torch.equal(again.models[3].probs(pool.x), found.models[3].probs(pool.x))
        knowledge = Knowledge(pool, RECIPE, trainer)
        assert LiRA(shadows=4, online=False).score(model, pool, knowledge, seed=7).isfinite().all()
        files[0].write_bytes(b"something else")
        with pytest.raises(ModelKeepError, match="changed since it was written"):
            trainer(model, pool, RECIPE, 4, 7)
