"""DP-SGD: the noise is what was promised, it learns, resumes bit for bit, and says what it does not cover."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.core.guarantee import Guarantee
from modelkeep.privacy.private_training import DPSGD, PrivateGradients
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.training.batches import Batches
from modelkeep.training.checkpoint import Snapshot
from modelkeep.training.schedules import Step
from modelkeep.zoo import architectures


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


def test_frozen_parts_keep_their_weights_and_get_neither_clipping_nor_noise() -> None:
    """Training the last layer alone is the same as training it on what the frozen part makes of the data."""
    data, whole, last = blobs(), made(), made()
    kept = [p.clone() for p in whole.module[0].parameters()]  # type: ignore[index]
    method = DPSGD(epsilon=4.0, batch_size=64, epochs=2, clip=0.1, trainable=("2",))
    found = method(whole, data, seed=3)
    assert all(torch.equal(p, q) for p, q in zip(kept, whole.module[0].parameters(), strict=True))  # type: ignore[index]
    with torch.no_grad():
        features = last.module[:2](data.x)  # type: ignore[index]
    head = Model(last.module[2], input_shape=(16,), classes=data.classes, bounds=None)  # type: ignore[index]
    top = DPSGD(epsilon=4.0, batch_size=64, epochs=2, clip=0.1)(
        head, Data(features, data.y, data.classes, bounds=None), seed=3
    )
    torch.testing.assert_close(whole.module[2].weight, head.module.weight, rtol=0, atol=1e-5)  # type: ignore[index]
    assert (found.epsilon, found.noise) == (top.epsilon, top.noise)


def test_the_file_of_the_model_says_the_guarantee_until_it_is_trained_again(tmp_path: Path) -> None:
    data = Data(torch.rand(100, 30), torch.arange(100) % 2, ("a", "b"))
    model = Model(
        architectures.dense((30,), 2),
        input_shape=(30,),
        classes=("a", "b"),
        architecture="modelkeep.architectures:dense",
        arguments={"input_shape": [30], "classes": 2},
    )
    found = DPSGD(epsilon=2.0, batch_size=20, epochs=1)(model, data)
    again = Model.load(model.save(tmp_path / "private.safetensors"))
    assert again.card.guarantee == Guarantee(found.epsilon, found.delta, "dp-sgd")
    fit(again, data, cross_entropy, Recipe(steps=1))
    assert again.card.guarantee is None


def test_each_example_is_drawn_by_itself_with_the_rate_of_the_accounting() -> None:
    """The sizes of the batches are binomial, and two examples meet as often as independence has it."""
    n, steps = 200, 3000
    recipe = DPSGD(batch_size=20, epochs=1).recipe(steps)
    batches = Batches(n, recipe, seed=5)
    drawn = torch.zeros(steps, n)
    for step in range(steps):
        drawn[step, batches.index(step)] = 1
    assert float(drawn.mean()) == pytest.approx(0.1, abs=0.002)
    assert float(drawn.sum(dim=1).var()) == pytest.approx(n * 0.1 * 0.9, rel=0.1)
    together = (drawn.T @ drawn / steps)[~torch.eye(n, dtype=torch.bool)]
    assert float(together.mean()) == pytest.approx(0.01, rel=0.02)
    assert float(together.std()) == pytest.approx((0.01 * 0.99 / steps) ** 0.5, rel=0.1)


_RUN = """
import sys, torch
from pathlib import Path
sys.path.insert(0, {tests!r})
from privacy.private_training.test_dp_sgd import blobs, made
from modelkeep.privacy import DPSGD
from modelkeep.training import fit
method, data, model = DPSGD(batch_size=64, epochs=4), blobs(), made()
budget = method.calibrate(len(data))
class Slow(type(method.objective(budget))):
    def gradients(self, model, x, y, step):
        print(step.number, flush=True)
        sys.stdin.readline()
        return super().gradients(model, x, y, step)
objective = Slow(method.clip, budget.noise, method.batch_size)
fit(model, data, objective, method.recipe(budget.steps), seed=3, checkpoint={path!r}, checkpoint_seconds=0)
"""


def test_it_resumes_bit_for_bit_after_a_kill(tmp_path: Path) -> None:
    """A process is killed in the middle of a step; this one goes on from its checkpoint."""
    path = tmp_path / "run.ckpt"
    tests = Path(__file__).parents[2]
    code = _RUN.format(tests=str(tests), path=str(path))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(7):
            process.stdout.readline()
            process.stdin.write("\n")
            process.stdin.flush()
        process.stdout.readline()
        process.kill()
    method, whole, again = DPSGD(batch_size=64, epochs=4), made(), made()
    budget = method.calibrate(len(blobs()))
    objective, recipe = method.objective(budget), method.recipe(budget.steps)
    assert 0 < Snapshot.from_bytes(path.read_bytes(), "it").values["step"] < budget.steps
    fit(whole, blobs(), objective, recipe, seed=3)
    named = replace(objective)
    object.__setattr__(named, "name", repr(objective).replace("PrivateGradients", "Slow"))
    fit(again, blobs(), named, recipe, seed=3, checkpoint=path)
    for one, other in zip(whole.module.parameters(), again.module.parameters(), strict=True):
        assert torch.equal(one, other)
