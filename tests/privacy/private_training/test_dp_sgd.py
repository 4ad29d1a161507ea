"""DP-SGD: the noise is what was promised, it learns, resumes bit for bit, and says what it does not cover."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.privacy.private_training import DPSGD, PrivateGradients
from modelkeep.training import Recipe, fit
from modelkeep.training.schedules import Step


def blobs(n: int = 600) -> Data:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 3
    centres = torch.eye(3).repeat(1, 2)
    return Data(centres[y] + 0.3 * torch.randn(n, 6, generator=generator), y, ("a", "b", "c"), name="blobs")


def made() -> Model:
    torch.manual_seed(0)
    return Model(
        nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)), input_shape=(6,), classes=("a", "b", "c")
    )


def test_it_learns_within_the_epsilon() -> None:
    train, test = blobs().split(0.8, 0.2, seed=0)
    method = DPSGD(epsilon=4.0, batch_size=64, epochs=10)
    found = method(made(), train, seed=1, held_out=test)
    assert found.epsilon <= 4.0
    assert found.delta == pytest.approx(1 / (10 * len(train)))
    assert found.accuracy is not None
    assert found.accuracy.value > 0.9
    assert "seed must stay secret" in dict(found.rows())["not covered"]
    assert found.provenance.method == "private-training/dp-sgd"


def test_the_noise_has_the_standard_deviation_that_was_asked_for() -> None:
    model = Model(nn.Linear(200, 100), input_shape=(200,), classes=100, bounds=None)
    step = Step(0, 1, 1, torch.arange(0), torch.Generator().manual_seed(0))
    objective = PrivateGradients(clip=2.0, noise=3.0, batch_size=10)
    objective.gradients(model, torch.zeros(0, 200), torch.zeros(0, dtype=torch.int64), step)  # nothing was drawn
    drawn = torch.cat([p.grad.flatten() for p in model.module.parameters() if p.grad is not None])
    assert float(drawn.std()) == pytest.approx(2.0 * 3.0 / 10, rel=0.03)
    assert abs(float(drawn.mean())) < 0.02


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # Opacus's own
def test_a_step_without_noise_equals_opacus() -> None:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    data = blobs(32)
    ours, theirs = made(), made().module
    recipe = Recipe(
        steps=1, batch_size=32, sampling="shuffle", optimizer=DPSGD().recipe(1).optimizer, learning_rate=0.1
    )
    fit(ours, data, PrivateGradients(clip=0.05, noise=0.0, batch_size=32), recipe, seed=0)
    wrapped = GradSampleModule(theirs.train())
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.1), noise_multiplier=0.0, max_grad_norm=0.05, expected_batch_size=32
    )
    torch.autograd.backward(nn.functional.cross_entropy(wrapped(data.x), data.y))
    optimizer.step()
    for mine, other in zip(ours.module.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-7)


def test_it_resumes_bit_for_bit(tmp_path: Path) -> None:
    data, path = blobs(), tmp_path / "run.ckpt"
    objective = PrivateGradients(clip=1.0, noise=1.0, batch_size=64)
    recipe = DPSGD(batch_size=64).recipe(20)
    whole = made()
    fit(whole, data, objective, recipe, seed=3)
    part = made()
    calls = 0

    class Stopped(PrivateGradients):
        def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            if calls == 9:
                raise KeyboardInterrupt
            return super().gradients(model, x, y, step)

        @property
        def name(self) -> str:
            return repr(objective)

    with pytest.raises(KeyboardInterrupt):
        fit(part, data, Stopped(1.0, 1.0, 64), recipe, seed=3, checkpoint=path, checkpoint_seconds=0)
    again = made()
    fit(again, data, objective, recipe, seed=3, checkpoint=path)
    for one, other in zip(whole.module.parameters(), again.module.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(InputError, match="larger than 'blobs'"):
        DPSGD(batch_size=1000)(made(), blobs())
