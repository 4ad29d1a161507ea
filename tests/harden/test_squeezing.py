"""Feature squeezing: the squeezers, the score by hand, and what the detector sees and does not see."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.core.errors import InputError
from modelkeep.harden.detection import judge
from modelkeep.harden.evasion import evade, together
from modelkeep.harden.squeezing import BitDepth, MedianSmoothing, feature_squeezing


def test_bit_depths_are_evenly_spaced_levels_within_the_bounds() -> None:
    x = torch.linspace(-1, 3, 401)
    found = BitDepth(3, bounds=(-1.0, 3.0))(x)
    levels = np.linspace(-1, 3, 8)
    nearest = np.abs(x.numpy()[:, None] - levels).min(axis=1)
    np.testing.assert_allclose(found.unique(), levels, atol=1e-6)
    np.testing.assert_allclose((found - x).abs(), nearest, atol=1e-6)


def test_the_score_is_the_largest_change_of_the_probabilities(trained: Model, digits: tuple[Data, Data]) -> None:
    squeezers = (BitDepth(2), MedianSmoothing(2))
    detector = feature_squeezing(trained, digits[0], squeezers, false_positive_rate=0.1)
    x = digits[1].x[:40]
    changes = [(trained.probs(x) - trained.probs(squeeze(x))).abs().sum(dim=1) for squeeze in squeezers]
    assert torch.allclose(detector.scores(x), torch.maximum(*changes), atol=1e-5)
    clean = detector.scores(digits[0].x)
    flagged = float((clean > detector.threshold).double().mean())
    assert 0.09 <= flagged <= 0.1
    assert detector.attackable is not None
    assert torch.allclose(detector.attackable(x), detector.scores(x), atol=1e-5)


def test_it_sees_plain_attacks_and_falls_to_one_that_knows_it(trained: Model, digits: tuple[Data, Data]) -> None:
    data = digits[1].first(100)
    before = trained.fingerprint()
    detector = feature_squeezing(trained, digits[0], [BitDepth(3)], false_positive_rate=0.1)
    seen = judge(detector, PGD(radius=0.12, steps=15)(trained, data, seed=0))
    assert seen.auc.low > 0.75
    assert seen.detection_rate.low > 0.3  # a tenth of the clean inputs is flagged
    evaded = evade(detector, data, radius=0.12, steps=30, targets=2, seed=0)
    assert evaded.held.value < 0.5
    assert trained.fingerprint() == before


def test_the_rounded_and_sure_score_has_a_gradient_for_an_attacker(trained: Model, digits: tuple[Data, Data]) -> None:
    detector = feature_squeezing(trained, digits[0], [BitDepth(1)])
    x = digits[1].x[:20].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(together(detector).forward(x)[:, -1].sum(), x)
    assert (gradient.flatten(1).abs().amax(dim=1) > 0).all()


def test_tables_need_squeezers_of_their_own() -> None:
    torch.manual_seed(0)
    model = Model(nn.Linear(4, 2), input_shape=(4,), classes=2, bounds=None)
    data = Data(torch.rand(20, 4), torch.arange(20) % 2, model.classes)
    with pytest.raises(InputError, match="'squeezers' parameter of feature_squeezing"):
        feature_squeezing(model, data)
    with pytest.raises(InputError, match="'squeezers' parameter of feature_squeezing"):
        feature_squeezing(model, data, [])
    rounded = feature_squeezing(model, data, [BitDepth(1)])
    assert rounded.scores(data.x).shape == (20,)
