"""A regression comes back to the last digits that float32 has; anything else is refused, and never fitted."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.access import Scores
from modelkeep.core.card import Preprocessing
from modelkeep.extract import Guarded
from modelkeep.extract.parameters.regression import steal_regression
from modelkeep.guard import ModelGuardS


def regression(width: int = 9, classes: int = 4, size: float = 1.0) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        layer = nn.Linear(width, classes)
    with torch.no_grad():
        layer.weight.mul_(size)
    card = Preprocessing(mean=(0.3,), std=(0.2,))
    module = nn.Sequential(nn.Flatten(), layer)
    return Model(module, input_shape=(1, 3, 3), classes=classes, preprocessing=card)


def test_the_weights_come_back_up_to_what_all_classes_share_and_with_the_preprocessing() -> None:
    model = regression()
    stolen = steal_regression(Scores(model), seed=0)
    assert stolen.recovered
    assert stolen.queries == 16 + 256 + 2 * 10
    layer = next(each for each in model.module.modules() if isinstance(each, nn.Linear))
    weight = layer.weight.detach().double() / 0.2
    torch.testing.assert_close(stolen.weight, weight - weight.mean(dim=0), atol=1e-3, rtol=1e-3)
    x = torch.rand(50, 1, 3, 3)
    assert stolen.model(torch.float32).predict(x).tolist() == model.predict(x).tolist()


def test_saturated_answers_are_asked_again_nearer_to_the_middle() -> None:
    assert steal_regression(Scores(regression(size=20.0)), seed=0).recovered


def test_what_is_not_linear_or_is_guarded_or_too_wide_is_refused_in_words() -> None:
    hidden = nn.Sequential(nn.Flatten(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 4))
    curved = steal_regression(Scores(Model(hidden, input_shape=(1, 3, 3), classes=4)), seed=0)
    assert "not linear" in str(curved.failure)
    guarded = steal_regression(Guarded(regression(), ModelGuardS(1.0)), seed=0)
    assert not guarded.recovered
    wide = Model(nn.Sequential(nn.Flatten(), nn.Linear(3 * 40 * 40, 2)), input_shape=(3, 40, 40), classes=2)
    refused = steal_regression(Scores(wide))
    assert "4,800 inputs" in str(refused.failure)
    assert refused.queries == 0
