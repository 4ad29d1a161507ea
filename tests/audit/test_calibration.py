"""The calibration error against closed forms: a model that is as sure as right, too sure, or not sure enough."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.audit import Finding
from modelkeep.audit.calibration import CheckCalibration, bin_edges, calibration_error, estimate_error


def coin(confidence: float) -> Model:
    """A model that says 'a' with the given confidence, whatever it sees."""
    layer = nn.Linear(1, 2)
    nn.init.zeros_(layer.weight)
    layer.bias.data = torch.tensor([confidence, 1 - confidence]).log()
    return Model(layer, input_shape=(1,), classes=("a", "b"))


def labels(right: int, wrong: int) -> Data:
    """As many examples on which 'a' is right and wrong; all right ones first, as a sorted file has them."""
    return Data(torch.zeros(right + wrong, 1), torch.tensor([0] * right + [1] * wrong), ("a", "b"))


def only(model: Model, data: Data) -> Finding:
    (finding,) = CheckCalibration()(model, data, seed=0).findings
    return finding


@pytest.mark.parametrize(
    ("confidence", "right", "name", "severity"),
    [
        (0.99, 600, "overconfident", "medium"),
        (0.55, 950, "underconfident", "medium"),
        (0.7, 600, "overconfident", "low"),
        (0.8, 800, "as-sure-as-right", "good"),
    ],
)
def test_the_finding_names_the_direction(confidence: float, right: int, name: str, severity: str) -> None:
    finding = only(coin(confidence), labels(right, 1000 - right))
    assert (finding.id, finding.severity) == (f"calibration.{name}", severity)
    assert finding.value is not None
    if severity != "good":
        assert finding.value.estimate.value == pytest.approx(abs(confidence - right / 1000), abs=0.02)
        assert finding.value.estimate.low <= abs(confidence - right / 1000) <= finding.value.estimate.high


def test_few_examples_are_no_good_news() -> None:
    assert only(coin(0.8), labels(24, 6)).severity == "unclear"


def test_groups_have_equal_size() -> None:
    assert bin_edges(30) == [0, 10, 20, 30]
    assert bin_edges(3) == [0, 3]
    assert set(np.diff(bin_edges(1501))) <= {100, 101}


def test_the_interval_holds_what_is_known_and_chance_is_not_an_error() -> None:
    """Of models that are as sure as right, about one in twenty is beyond chance; others hold their true error."""
    random = np.random.default_rng(0)
    beyond = held = 0
    for seed in range(40):
        sure = np.sort(random.uniform(0.5, 1, 300))
        fair, tilted = (random.random(300) < p for p in (sure, sure - 0.2))
        error, by_chance = estimate_error(sure, fair.astype(float), seed)
        beyond += error.value > by_chance
        error, _ = estimate_error(sure, tilted.astype(float), seed)
        held += error.low <= 0.2 <= error.high
    assert beyond <= 6
    assert held >= 33
    assert calibration_error(np.array([0.5, 1.0]), np.array([0.0, 1.0])) == 0.25
