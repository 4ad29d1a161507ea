"""Detectors: thresholds, areas and combined models against slow ones; a network that sees PGD and is then fooled."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import PGD, Attacked
from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import InputError
from modelkeep.core.results import Result
from modelkeep.harden.detection import Detector, area_under_curve, calibrate, judge
from modelkeep.harden.evasion import NOTICED, evade, together
from modelkeep.harden.trained_detector import train_detector
from modelkeep.training import Recipe


class Brightness(nn.Module):
    """Suspicion against bright inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1).sum(dim=1)


def plain_pgd(model: Model, data: Data) -> Attacked:
    return PGD(radius=0.15, steps=15)(model, data, seed=0)


@pytest.fixture(scope="module")
def at_input(trained: Model, digits: tuple[Data, Data]) -> Detector:
    return train_detector(trained, digits[0], plain_pgd, recipe=Recipe(epochs=15), seed=0)


def test_the_threshold_flags_no_more_than_the_wanted_share_of_clean_inputs() -> None:
    model = Model(nn.Linear(1, 2), input_shape=(1,), classes=2)
    clean = Data(torch.linspace(0, 1, 100)[:, None], torch.arange(100) % 2, model.classes)
    detector = calibrate("brightness", model, Brightness(), clean, false_positive_rate=0.05)
    assert detector.flags(clean.x).sum() == 5
    assert detector.flags(clean.x)[-5:].all()
    same = Data(torch.full((10, 1), 0.5), torch.arange(10) % 2, model.classes)
    assert not calibrate("brightness", model, Brightness(), same, false_positive_rate=0.5).flags(same.x).any()
    with pytest.raises(InputError, match="'false_positive_rate' parameter of calibrate"):
        calibrate("brightness", model, Brightness(), clean, false_positive_rate=0.0)


def test_the_area_is_sklearns_also_with_ties() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = torch.randint(0, 10, (60,), generator=generator).float()
    attacked = torch.randint(4, 14, (40,), generator=generator).float()
    area = area_under_curve(clean, attacked)
    expected = roc_auc_score([0] * 60 + [1] * 40, torch.cat([clean, attacked]).numpy())
    assert area.value == pytest.approx(expected)
    assert area.low < area.value < area.high
    perfect = area_under_curve(clean, clean + 100)
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low < 0.95


def test_model_and_detector_together_answer_only_where_nothing_is_noticed() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(8, 3))
    model = Model(module, input_shape=(2, 4), classes=3, preprocessing=Preprocessing((0.5,), (0.1,)))
    x = torch.rand(200, 2, 4)
    detector = calibrate("brightness", model, Brightness(), Data(x, torch.zeros(200).long(), model.classes))
    both = together(detector)
    assert both.classes == ("0", "1", "2", NOTICED)
    expected = torch.where(x.sum(dim=(1, 2)) > detector.threshold, 3, model.predict(x))
    assert torch.equal(both.predict(x), expected)
    assert torch.allclose(both.logits(x)[:, :3], model.logits(x), atol=1e-5)
    leading = both.logits(x)[:, 3] - model.logits(x).amax(dim=1)
    assert torch.allclose(leading, (x.sum(dim=(1, 2)) - detector.threshold) / detector.spread, atol=1e-4)


def test_evasion_finds_what_exists_on_a_line_and_nothing_else() -> None:
    # The answer is 1 above a half, and all above 0.7 is flagged: only from above 0.7 - 0.2 - … up to 0.7 is it lost.
    module = nn.Linear(1, 2)
    module.load_state_dict({"weight": torch.tensor([[-1.0], [1.0]]), "bias": torch.tensor([0.5, -0.5])})
    model = Model(module, input_shape=(1,), classes=("low", "high"))
    data = Data(torch.linspace(0.01, 0.99, 99)[:, None], torch.zeros(99).long(), model.classes)
    detector = Detector("brightness", model, Brightness(), threshold=0.7, spread=0.1)
    found = evade(detector, data, radius=0.105, steps=40, targets=1, seed=0)
    x = data.x[:, 0]
    assert torch.equal(found.success, (x > 0.395) & (x < 0.805))
    changed = found.adversarial[found.success][:, 0]
    assert ((changed > 0.5) & (changed <= 0.7)).all()
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])
    assert found.held.value == pytest.approx(float((~found.success).double().mean()))
    again = Result.from_json(found.to_json())
    assert str(again) == str(found)
    assert found.draw().axes
    with pytest.raises(InputError, match="'targets' parameter of evade must be from 1 to 1"):
        evade(detector, data, radius=0.1, targets=2, seed=0)


def test_a_trained_detector_sees_plain_pgd_and_falls_to_an_attack_that_knows_it(
    at_input: Detector, trained: Model, digits: tuple[Data, Data]
) -> None:
    data = digits[1].first(100)
    seen = judge(at_input, plain_pgd(trained, data))
    assert seen.auc.low > 0.85
    assert seen.detection_rate.value > 0.75
    assert seen.false_positive_rate.value < 0.15
    evaded = evade(at_input, data, radius=0.15, steps=30, targets=2, seed=0)
    assert evaded.clean.value > 0.75
    assert evaded.held.value < 0.4
    # In the deployed system, each success is wrong and unnoticed.
    won = evaded.adversarial[evaded.success]
    assert (trained.predict(won) != data.y[evaded.success]).all()
    assert not at_input.flags(won).any()
    assert (won - data.x[evaded.success]).abs().max() <= 0.15


def test_a_detector_may_look_at_a_slice(trained: Model, digits: tuple[Data, Data]) -> None:
    before = trained.fingerprint()
    detector = train_detector(trained, digits[0], plain_pgd, at="conv2", recipe=Recipe(epochs=8), seed=0)
    assert trained.fingerprint() == before
    seen = judge(detector, plain_pgd(trained, digits[1].first(100)))
    assert seen.auc.low > 0.6
    assert "network at conv2" in str(seen)
    assert seen.draw().axes


def test_an_attack_that_finds_nothing_teaches_and_judges_nothing(
    at_input: Detector, trained: Model, digits: tuple[Data, Data]
) -> None:
    def feeble(model: Model, data: Data) -> Attacked:
        return PGD(radius=1e-6, steps=1)(model, data, seed=0)

    with pytest.raises(InputError, match="too few to learn from"):
        train_detector(trained, digits[0].first(50), feeble, seed=0)
    with pytest.raises(InputError, match="nothing to detect"):
        judge(at_input, feeble(trained, digits[1].first(20)))
