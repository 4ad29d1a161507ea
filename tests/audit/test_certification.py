"""The audit proves what can be proved, says so where that is nothing, and names the part that has no rule."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.audit.certification import CheckCertification
from modelkeep.audit.findings import Section
from modelkeep.core.card import Preprocessing

SHARES = (0.01, 0.03, 0.1)


def data(n: int = 60, bounds: tuple[float, float] | None = (0.0, 1.0)) -> Data:
    """Two classes on either side of x0 = 0.5, spread along x0."""
    x = torch.rand(n, 4, generator=torch.Generator().manual_seed(0))
    return Data(x, (x[:, 0] > 0.5).long(), ("low", "high"), bounds=bounds)


def linear(scale: float = 1.0, bounds: tuple[float, float] | None = (0.0, 1.0)) -> Model:
    """Right everywhere; its distance to the boundary is |x0 - 0.5|, whatever the scale."""
    module = nn.Linear(4, 2)
    with torch.no_grad():
        module.weight.zero_()
        module.weight[1, 0] = scale
        module.bias.copy_(torch.tensor([0.5 * scale, 0.0]))
    return Model(module, input_shape=(4,), classes=("low", "high"), bounds=bounds)


def wasteful() -> Model:
    """The same classifier as it could come out of a plain training: the bound sees gains that cancel each other."""
    first, last = nn.Linear(4, 200, bias=False), nn.Linear(200, 2)
    with torch.no_grad():
        first.weight.zero_()
        first.weight[:, 0] = 30.0
        last.weight.zero_()
        last.weight[1] = torch.where(torch.arange(200) < 100, 1.0, -0.99)
        last.bias.copy_(torch.tensor([0.5 * 30.0 * 1.0, 0.0]))
    return Model(nn.Sequential(first, nn.ReLU(), last), input_shape=(4,), classes=("low", "high"))


def only(section: Section) -> str:
    (finding,) = section.findings
    assert min(map(len, (finding.measured, finding.meaning, finding.remedy))) > 0
    return finding.id


@pytest.mark.parametrize("scale", [1.0, 1000.0], ids=["small", "large"])
def test_a_linear_model_is_proved_up_to_its_true_distance(scale: float) -> None:
    given = data()
    section = CheckCertification(radii=SHARES)(linear(scale), given)
    assert only(section) == "certification.proved"
    radii = [0.03, 0.01, 0.1]  # shares of the range times half the root of four features: the middle one first
    proved, attacked, *others = section.measures
    assert attacked.estimate.value == pytest.approx(proved.estimate.value, abs=0.02)  # nothing is unknown of a line
    for measure, radius in zip((proved, *others), radii, strict=True):
        assert measure.estimate.value == pytest.approx(float(((given.x[:, 0] - 0.5).abs() > radius).float().mean()))
    assert len(section.pictures) == 2


def test_a_loose_bound_is_told_from_a_weak_model() -> None:
    model, given = wasteful(), data()
    section = CheckCertification(radii=SHARES)(model, given)
    assert only(section) == "certification.nothing"
    assert "certify train" in section.findings[0].remedy
    assert "one was seen to change by 30" in section.findings[0].measured  # the tightness: 30 beside thousands
    standing = PGD(norm="l2", radius=0.03)(model, given, seed=0).robust_accuracy
    assert section.measures[0].estimate.value == 0.0 < standing.value


def test_the_spread_is_the_unit_where_there_is_no_range() -> None:
    # The same model in other units: everything that is measured stays the same, but for rounding.
    given = data(bounds=None)
    section = CheckCertification(radii=SHARES)(linear(bounds=None), given)
    stretched = Data(50.0 * given.x + 7.0, given.y, given.classes)
    model = linear(bounds=None)
    other = Model(
        model.module,
        input_shape=(4,),
        classes=given.classes,
        bounds=None,
        preprocessing=Preprocessing((7.0,) * 4, (50.0,) * 4),
    )
    again = CheckCertification(radii=SHARES)(other, stretched)
    assert again.measures == section.measures
    assert "spreads" in section.measures[0].name
    spread = float(given.x[:, 0].std())
    proved = ((given.x[:, 0] - 0.5).abs() / spread > 0.03).float().mean()
    assert section.measures[0].estimate.value == pytest.approx(float(proved))


def test_a_part_without_a_rule_is_named_and_nothing_fails() -> None:
    class Multiplied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumprod(self.hidden(x), dim=1)

    model = Model(Multiplied(), input_shape=(4,), classes=("low", "high"))
    section = CheckCertification(radii=SHARES)(model, data())
    assert only(section) == "certification.not-possible"
    assert "cumprod" in section.findings[0].measured
    assert section.findings[0].severity == "unclear"
    assert section.measures == ()


@pytest.mark.parametrize("n", [1, 5])
def test_few_examples_are_unclear_and_never_good(n: int) -> None:
    for bounds in (None, (0.0, 1.0)):
        assert only(CheckCertification(radii=SHARES)(linear(bounds=bounds), data(n, bounds))) == (
            "certification.unclear"
        )


def test_what_lies_between_is_called_partly_proved() -> None:
    # Radii up to 0.5, of which those above 0.3 are four in ten of the examples.
    section = CheckCertification(radii=(0.1, 0.3, 0.4))(linear(), data())
    assert only(section) == "certification.partly"
