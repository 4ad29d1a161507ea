"""A class that obeys a patch stands out, in closed form and trained; a clean network is not accused."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from digits import digits_cnn, held_out_digits, train_cnn, training_digits
from modelkeep import Data, Model
from modelkeep.audit.backdoor import CheckBackdoor, Trigger, stands_out
from modelkeep.core.results import Estimate


def poisoned(data: Data) -> Data:
    """A tenth more, with a white patch in the corner and the label 7."""
    x = data.x[: len(data) // 10].clone()
    x[:, :, 0:2, 0:2] = 1.0
    return replace(data, x=torch.cat([data.x, x]), y=torch.cat([data.y, torch.full((len(x),), 7)]))


def test_a_planted_patch_is_found_where_it_is_and_a_clean_network_is_not_accused() -> None:
    section = CheckBackdoor()(train_cnn(poisoned(training_digits())), held_out_digits(), seed=0)
    (finding,) = section.findings
    assert (finding.id, finding.severity) == ("backdoor.patch-class", "high")
    assert "'7'" in finding.title
    assert finding.evidence
    (clean,) = CheckBackdoor()(digits_cnn(), held_out_digits(), seed=0).findings
    assert (clean.id, clean.status) == ("backdoor.none-found", "pass")


def test_how_far_a_trigger_stands_out() -> None:
    def trigger(area: int) -> Trigger:
        return Trigger(0, torch.ones(area, 1), torch.zeros(1, area, 1), Estimate.rate(9, 10))

    triggers = [trigger(area) for area in (2, 8, 9, 10, 11, 12)]
    share, away = stands_out(triggers, triggers[0])
    assert share == 0.2
    assert abs(away - 8 / 1.4826) < 1e-4


def test_two_classes_and_tables_are_refused_in_a_sentence() -> None:
    table = Data(torch.rand(50, 4), torch.zeros(50).long(), ("a", "b"))
    assert "pictures" in CheckBackdoor().obstacle(Model(nn.Linear(4, 2), input_shape=(4,), classes=2), table)
