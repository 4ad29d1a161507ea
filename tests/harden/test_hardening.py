"""Harden: every method by its name, what it gained and cost, and a model that is changed only when all went well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from modelkeep import Data, Model, Result
from modelkeep.attack import PGD
from modelkeep.core.errors import TrainingError
from modelkeep.core.method import options_of
from modelkeep.core.registry import declarations, find
from modelkeep.harden import Hardened, PGDTraining, Trades, harden
from modelkeep.training import Recipe, Step, cross_entropy, fit

Make = Callable[[], Model]


def bits(model: Model) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.module.state_dict().items()}


@pytest.fixture(scope="module")
def trained(digits: tuple[Data, Data]) -> Callable[[], Model]:
    """Makes the same plainly trained network each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    first = Model(module, input_shape=(1, 8, 8), classes=digits[0].classes)
    fit(first, digits[0], cross_entropy, Recipe(epochs=10, learning_rate=1e-2), seed=0)
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}

    def make() -> Model:
        again = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
        again.load_state_dict(state)
        return Model(again, input_shape=(1, 8, 8), classes=digits[0].classes)

    return make


def test_it_says_what_was_gained_and_what_it_cost(trained: Make, digits: tuple[Data, Data]) -> None:
    model, (train, held_out) = trained(), digits
    before = model.fingerprint()
    recipe = Recipe(epochs=8, batch_size=64, learning_rate=5e-3)
    found = harden(model, train, PGDTraining(radius=0.15), recipe, held_out=held_out, attack=PGD(radius=0.15), seed=0)
    assert found.verdict == "holds"
    assert found.attacked_after.low > found.attacked_before.high
    right = float((model.predict(held_out.x) == held_out.y).double().mean())
    assert right == found.clean_after.value  # it is the hardened model that the caller holds now
    assert found.training.model == model.fingerprint() != before == found.provenance.model
    assert found.cost > 1.5  # eleven passes instead of one
    assert found.seconds == found.training.provenance.seconds
    model.require_eval()
    printed = str(found)
    assert "× plain training" in printed
    assert "holds" in printed
    assert len(found.draw().get_axes()) == 1
    again = Result.from_json(found.to_json())
    assert isinstance(again, Hardened)
    assert str(again) == printed
    assert again.training.history == found.training.history


@pytest.mark.parametrize("name", declarations("hardening"))
def test_every_method_goes_by_its_name(trained: Make, digits: tuple[Data, Data], name: str, tmp_path: Path) -> None:
    model, train = trained(), digits[0].first(128)
    start = bits(model)
    recipe = Recipe(epochs=4, batch_size=64, learning_rate=1e-3)
    checkpoint = tmp_path / "run.safetensors"
    kind, attack = find("hardening", name).load(), PGD(norm="l2", radius=0.3)
    bounded = {"radius": 0.3, "norm": "l2"} if any(each.name == "radius" for each in options_of(kind)) else {}
    method = kind(**bounded)
    found = harden(
        model, train, method, recipe, held_out=digits[1].first(40), attack=attack, seed=0, checkpoint=checkpoint
    )
    assert found.method == name
    assert found.training.recipe.replays == (4 if name == "free" else 1)
    assert found.training.history[-1].step == 8  # free: one epoch of two batches, four times each
    assert bits(model) != start
    # Once more: the finished training is found in the checkpoint, and the result is the same.
    once_more = trained()
    again = harden(
        once_more,
        train,
        method,
        recipe,
        held_out=digits[1].first(40),
        attack=attack,
        seed=0,
        checkpoint=checkpoint,
    )
    assert bits(once_more) == bits(model)
    assert again.training.history == found.training.history
    assert (again.clean_after, again.attacked_after) == (found.clean_after, found.attacked_after)


def test_an_objective_of_ones_own(trained: Make, digits: tuple[Data, Data]) -> None:
    def doubled(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return 2 * functional.cross_entropy(model.forward(x), y)

    for method, name in ((Trades(radius=0.1, norm="l2", beta=1.0, steps=2), "trades"), (doubled, "doubled")):
        few = digits[1].first(20)
        found = harden(
            trained(), digits[0].first(64), method, Recipe(steps=2), held_out=few, attack=PGD(radius=0.1), seed=0
        )
        assert found.method.endswith(name)
        assert found.training.objective.endswith(name if method is doubled else "beta=1.0, steps=2)")


def test_what_fails_leaves_the_model_as_it_was(trained: Make, digits: tuple[Data, Data]) -> None:
    def breaking(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return PGDTraining(radius=0.1)(model, x, y, step) * (float("nan") if step.number == 3 else 1)

    model = trained()
    start = bits(model)
    with pytest.raises(TrainingError):
        harden(
            model, digits[0], breaking, Recipe(steps=9), held_out=digits[1].first(20), attack=PGD(radius=0.1), seed=0
        )
    assert bits(model) == start
