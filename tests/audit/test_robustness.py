"""The check of robustness runs any attack of the registry that stays within a radius."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from digits import digits_cnn, held_out_digits
from modelkeep import Data, Model
from modelkeep.audit.robustness import CheckRobustness
from modelkeep.core.errors import InputError


@pytest.fixture
def data(small_cnn: Model) -> Data:
    x = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return Data(x, small_cnn.predict(x), small_cnn.classes)


def test_it_measures_in_both_norms_by_pgd(small_cnn: Model, data: Data) -> None:
    section = CheckRobustness(radii=(0.1, 0.2), steps=3)(small_cnn, data)
    norms = ["L2" if ", L2" in measure.name else "L∞" for measure in section.measures]
    assert norms == ["L∞", "L∞", "L2", "L2"]
    assert "PGD looks for a small change" in section.lead
    assert {finding.id.split(".")[0] for finding in section.findings} == {"robustness"}


def test_another_attack_is_named(small_cnn: Model, data: Data) -> None:
    section = CheckRobustness(radii=(0.001,), attack="fgsm")(small_cnn, data)
    assert "FGSM looks for a small change" in section.lead
    assert all("pgd" not in finding.id for finding in section.findings)


def test_an_attack_without_a_radius_is_refused(small_cnn: Model, data: Data) -> None:
    with pytest.raises(InputError, match="needs an attack within a radius; 'deepfool' takes none"):
        CheckRobustness(attack="deepfool")(small_cnn, data)
    with pytest.raises(InputError, match="There is no attack 'pdg'"):
        CheckRobustness(attack="pdg")(small_cnn, data)


def test_it_says_no_more_than_what_was_measured_and_how_to_repeat_it(small_cnn: Model, data: Data) -> None:
    finding = CheckRobustness(radii=(0.3, 0.5), steps=5)(small_cnn, data, seed=1).findings[0]
    assert finding.outcomes is not None
    assert finding.outcomes.well.count("1") == round(finding.value.estimate.value * 20) if finding.value else False
    assert (
        finding.command
        == "modelkeep attack MODEL --data DATA --method pgd --radius 0.5 --steps 5 --seed 1 --examples 20"
    )
    assert "data.sample(20, 1)" in finding.python
    assert "choose the answer" not in finding.meaning


class Steps(nn.Module):
    """A network that sees its inputs in 20 steps, which have no gradient."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.inner((x * 20).round() / 20)
        return logits


def test_hidden_gradients_are_found_by_an_attack_that_needs_none() -> None:
    plain, test = digits_cnn(), held_out_digits()
    hidden = Model.from_card(Steps(plain.module), plain.card)
    check = CheckRobustness(examples=60, radii=(0.05, 0.15), steps=10, depth="standard")
    found = {finding.id: finding for finding in check(hidden, test, seed=0).findings}
    masked = found["robustness.masked-gradients"]
    assert masked.severity in ("high", "medium")
    assert masked.access == "scores"
    assert all(finding.status != "pass" for finding in found.values())
    assert "robustness.masked-gradients" not in {f.id for f in check(plain, test, seed=0).findings}
