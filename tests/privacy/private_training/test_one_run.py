"""The audit of one run: what it finds in trainings with too little noise, without any, and with the right noise."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.core.errors import InputError
from modelkeep.privacy import DPSGD, AuditedEpsilon, AuditEpsilon
from modelkeep.privacy.private_training import one_run
from modelkeep.privacy.private_training.dp_sgd import Budget
from modelkeep.training import Recipe


def noise(n: int = 400, features: int = 20) -> Data:
    """Records without a pattern: what is learned is learned by heart."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 4, (n,), generator=generator)
    return Data(torch.randn(n, features, generator=generator), y, ("a", "b", "c", "d"), name="noise", bounds=None)


def made(width: int = 64) -> Model:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(20, width), nn.Tanh(), nn.Linear(width, 4))
    return Model(module, input_shape=(20,), classes=("a", "b", "c", "d"), bounds=None)


TRAINING = DPSGD(epsilon=4.0, batch_size=40, epochs=5, learning_rate=0.1)


def test_the_claimed_epsilon_is_not_refuted_and_something_is_proved() -> None:
    model = made()
    before = model.fingerprint()
    found = AuditEpsilon(training=TRAINING, canaries=1000)(model, noise(), seed=0)
    assert found.claimed is not None
    assert 0.3 < found.epsilon.low < found.claimed <= 4.0
    assert not found.contradicted
    assert found.epsilon.high == math.inf
    assert model.fingerprint() == before
    again = Result.from_json(found.to_json())
    assert isinstance(again, AuditedEpsilon)
    assert again.epsilon == found.epsilon
    found.draw()


def test_a_training_with_a_quarter_of_the_noise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error that such an audit is for: the noise is not what the accounting assumes."""
    right = DPSGD.calibrate

    def wrong(self: DPSGD, n: int) -> Budget:
        found = right(self, n)
        return Budget(found.epsilon, found.delta, found.noise / 4, found.rate, found.steps)

    monkeypatch.setattr(DPSGD, "calibrate", wrong)
    training = DPSGD(epsilon=1.0, batch_size=40, epochs=5, learning_rate=0.1)
    found = AuditEpsilon(training=training, canaries=1000)(made(), noise(), seed=0)
    assert found.contradicted
    assert "refuted" in dict(found.rows())["ε, claimed"]


def test_a_plain_training_that_learns_by_heart_shows_its_records() -> None:
    recipe = Recipe(epochs=60, batch_size=40, learning_rate=0.01)
    found = AuditEpsilon(training=recipe, canaries=200)(made(256), noise(), seed=0)
    assert found.canary_kind == "records"
    assert found.claimed is None
    assert found.epsilon.low > 2
    private = AuditEpsilon(training=TRAINING, canaries=200, kind="records")(made(), noise(), seed=0)
    assert private.epsilon.low < 1


def test_the_guesses_are_those_of_the_order() -> None:
    inside = torch.tensor([True, True, False, False] * 25)
    best = max(one_run.guess(inside.double(), inside), key=lambda each: each.epsilon)
    assert (best.made, best.right) == (100, 100)
    assert best.epsilon == pytest.approx(math.log((0.05 / 6) ** 0.01 / (1 - (0.05 / 6) ** 0.01)), abs=1e-3)


def test_what_cannot_be_audited_is_refused() -> None:
    with pytest.raises(InputError, match="coordinate of its own"):
        AuditEpsilon(training=TRAINING, canaries=10_000)(made(8), noise())
    with pytest.raises(InputError, match="fewer canaries"):
        AuditEpsilon(training=Recipe(steps=1), canaries=400)(made(8), noise())
    with pytest.raises(InputError, match='kind="records"'):
        AuditEpsilon(training=Recipe(steps=1), kind="gradients")(made(8), noise())
