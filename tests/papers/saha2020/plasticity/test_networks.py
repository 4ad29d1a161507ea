"""The networks by depth and width, and the attack that is carried on from epoch to epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.norms import Ball
from modelkeep.papers.saha2020.plasticity.networks import CarriedOn, build_network
from modelkeep.training import Recipe, Step, fit
from modelkeep.training.objectives import Loss


def points(n: int = 10, seed: int = 0) -> Data:
    drawn = torch.Generator().manual_seed(seed)
    return Data(torch.randn(n, 4, generator=drawn), torch.arange(n) % 2, ("a", "b"))


def line() -> Model:
    module = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, -2.0, 3.0, -4.0], [0.0, 0.0, 0.0, 0.0]]))
    return Model(module, input_shape=(4,), classes=("a", "b"), bounds=None)


def test_a_network_has_its_depth_and_width_and_comes_from_its_seed() -> None:
    data = Data(torch.zeros(2, 1, 12, 12), torch.tensor([0, 1]), ("a", "b"))
    state = torch.random.get_rng_state()
    model, same, other = (build_network(data, 3, 5, seed) for seed in (0, 0, 1))
    convolutions = [part for part in model.module.modules() if isinstance(part, nn.Conv2d)]
    assert [part.out_channels for part in convolutions] == [5, 5, 5]
    assert model.fingerprint() == same.fingerprint() != other.fingerprint()
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("epochs", [1, 3, 6])
def test_the_attack_on_a_line_goes_on_where_it_ended_until_the_edge(epochs: int) -> None:
    model, data = line(), points()
    objective = CarriedOn(Ball("linf", 0.5, None), steps=2, step_size=0.05)
    fit(model, data, objective, Recipe(epochs=epochs, batch_size=4, learning_rate=0.0), seed=0)
    # Away from its class each coordinate moves by 0.05 per step against the difference of the weights.
    away = torch.where(data.y == 0, -1.0, 1.0)[:, None] * torch.tensor([1.0, -1.0, 1.0, -1.0])
    expected = data.x + min(0.1 * epochs, 0.5) * away
    assert torch.allclose(objective.state_dict()["moved"], expected, atol=1e-5)


def test_a_second_run_starts_from_the_examples_again() -> None:
    model, data = line(), points()
    objective = CarriedOn(Ball("linf", 0.5, None), steps=1, step_size=0.05)
    for _ in range(2):
        fit(model, data, objective, Recipe(epochs=2, batch_size=4, learning_rate=0.0), seed=0)
        assert float((objective.state_dict()["moved"] - data.x).abs().max()) == pytest.approx(0.1, abs=1e-5)


def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, recipe = points(20), Recipe(epochs=3, batch_size=4, learning_rate=0.05)

    def objective() -> CarriedOn:
        return CarriedOn(Ball("l2", 0.5, None), steps=2, step_size=0.2)

    whole = line()
    fit(whole, data, objective(), recipe, seed=0)

    original = CarriedOn.__call__

    def breaks(self: CarriedOn, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        if step.number == 8:
            raise RuntimeError("killed")
        return original(self, model, x, y, step)

    with monkeypatch.context() as patched:
        patched.setattr(CarriedOn, "__call__", breaks)
        with pytest.raises(RuntimeError, match="killed"):
            fit(line(), data, objective(), recipe, seed=0, checkpoint=tmp_path / "c", checkpoint_seconds=0)
    resumed = line()
    fit(resumed, data, objective(), recipe, seed=0, checkpoint=tmp_path / "c")
    assert resumed.fingerprint() == whole.fingerprint()
