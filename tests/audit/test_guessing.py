"""Models whose accuracy is known by construction: a guess is called a guess, knowledge is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.audit.accuracy import CheckAccuracy
from modelkeep.audit.findings import Finding
from modelkeep.audit.guessing import judge_guessing
from modelkeep.core.results import Estimate


class Told(nn.Module):
    """Answers with the number that the input is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 5.0 * nn.functional.one_hot(x[:, 0].long().clamp(0, 3), 4) - 1


def _finding(answers: torch.Tensor, labels: torch.Tensor) -> Finding:
    """What the check says of a model that gives these answers."""
    model = Model(Told(), input_shape=(1,), classes=4, bounds=None)
    data = Data(answers[:, None].float(), labels, model.classes, bounds=None)
    (finding,) = CheckAccuracy()(model, data).findings
    return finding


def _draw(n: int, seed: int) -> torch.Tensor:
    return torch.randint(4, (n,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", [40, 400, 4000])
def test_random_answers_are_called_a_guess_or_unclear(n: int) -> None:
    found = [_finding(_draw(n, 2 * seed), _draw(n, 2 * seed + 1)) for seed in range(10)]
    # Ten intervals of 95 %: one of them may miss.
    assert sum(f.id in ("accuracy.no-better-than-guessing", "accuracy.unclear") for f in found) >= 9
    assert sum(f.severity == "high" for f in found) >= (9 if n > 40 else 3)
    assert "95 % interval" in found[0].measured


def test_swapped_classes_are_worse_than_a_guess() -> None:
    labels = _draw(200, 0)
    found = _finding((labels + 1) % 4, labels)
    assert found.id == "accuracy.worse-than-guessing"
    assert found.severity == "high"
    assert "0.0 % of 200 examples (95 % interval 0.0 % to 1.8 %)" in found.measured


def test_a_constant_answer_is_no_better_than_its_class() -> None:
    labels = torch.tensor([2] * 90 + [0] * 10)
    found = _finding(torch.full((100,), 2), labels)
    assert found.title == "It is no better than always answering '2'"
    assert found.severity == "high"
    half = labels.clone()
    half[:40] = 1
    assert _finding(half, labels).title == "It is worse than always answering '2'"


def test_a_model_that_is_right_is_not_blamed() -> None:
    labels = _draw(200, 0)
    assert _finding(labels, labels).id == "accuracy.as-expected"


def test_many_examples_turn_a_hair_above_a_guess_into_a_finding() -> None:
    """0.51 of two classes: unclear on 100 examples, hardly better than a coin on 2,000, better on 20,000."""
    found = []
    for n in (100, 2000, 20_000):
        verdict = judge_guessing(Estimate.rate(51 * n // 100, n), [n // 2, n // 2], ("a", "b"))
        found.append(verdict.id if verdict else None)
    assert found == ["accuracy.unclear", "accuracy.no-better-than-guessing", None]


def test_one_photograph_of_each_class_has_no_largest_class() -> None:
    counts = [1] * 10 + [0] * 990
    names = tuple(map(str, range(1000)))
    assert judge_guessing(Estimate.rate(1, 10), counts, names) is None  # 1 of 10 is much for 1,000 classes
    nothing = judge_guessing(Estimate.rate(0, 10), counts, names)
    assert nothing is not None
    assert nothing.id == "accuracy.no-better-than-guessing"
