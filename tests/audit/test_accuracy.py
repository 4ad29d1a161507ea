"""Accuracy says which examples came out well, shows mistakes, and can be repeated by the command that it names."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.audit.accuracy import CheckAccuracy


class Bright(nn.Module):
    """Bright pictures are 'bright'."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=(1, 2, 3)) - 0.5
        return torch.stack([-mean, mean], dim=1)


def test_outcomes_and_mistakes() -> None:
    model = Model(Bright(), input_shape=(1, 4, 4), classes=("dark", "bright"))
    x = torch.cat([torch.full((60, 1, 4, 4), 0.2), torch.full((60, 1, 4, 4), 0.8)])
    y = torch.tensor([0] * 60 + [1] * 20 + [0] * 40)  # 40 of the dark ones are bright
    data = Data(x, y, model.classes, bounds=(0.0, 1.0))
    (finding,) = CheckAccuracy()(model, data).findings
    assert finding.id == "accuracy.no-better-than-the-largest-class"
    assert finding.outcomes is not None
    assert finding.outcomes.well == "1" * 80 + "0" * 40
    assert finding.outcomes.examples == data.fingerprint()
    assert (finding.access, finding.queries) == ("labels", 120)
    assert finding.value is not None
    assert finding.value.estimate.value == 80 / 120


def test_mistakes_are_shown_where_it_is_no_better_than_guessing() -> None:
    model = Model(Bright(), input_shape=(1, 4, 4), classes=("dark", "bright"))
    data = Data(torch.full((40, 1, 4, 4), 0.8), torch.tensor([0, 1] * 20), model.classes, bounds=(0.0, 1.0))
    (finding,) = CheckAccuracy()(model, data).findings
    assert finding.severity == "high"
    (picture,) = finding.evidence
    assert picture.alt == "8 examples that it gets wrong"
