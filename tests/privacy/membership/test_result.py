"""A membership result says what was found, and claims nothing where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from modelkeep import ModelKeepError, Result
from modelkeep.core.results import measured
from modelkeep.privacy.membership.result import Membership, draw_roc


def compare(members: torch.Tensor, non_members: torch.Tensor) -> Membership:
    with measured(0) as provenance:
        return Membership.of("loss", members, non_members, provenance())


def test_few_records_claim_nothing_at_low_rates() -> None:
    found = compare(torch.ones(50), -torch.ones(50))
    rows = dict(found.rows())
    assert rows["members found at 0.1 % false positives"].startswith("inconclusive: 50 non-members")
    assert rows["members found at 1 % false positives"].startswith("inconclusive")
    assert not any(point.claimed for point in found.points)
    assert found.leaks  # by the advantage


def test_scores_that_say_nothing_show_no_leak() -> None:
    generator = torch.Generator().manual_seed(0)
    found = compare(torch.randn(2000, generator=generator), torch.randn(5000, generator=generator))
    assert not found.leaks
    assert not found.advantage.excludes(0)
    assert not found.auc.excludes(0.5)


def test_a_few_members_for_certain_are_a_leak_though_the_mean_sees_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    members, non_members = torch.randn(2000, generator=generator), torch.randn(5000, generator=generator)
    members[:30] = 10.0
    found = compare(members, non_members)
    assert not found.advantage.excludes(0)
    assert found.points[0].claimed
    assert found.leaks
    assert set(found.most_exposed(30)) == set(range(30))


def test_the_strongest_of_many_useless_attacks_is_no_leak() -> None:
    """Of 40 attacks that guess, some exceed their own 95 % interval; together they do so once in twenty times."""
    generator = torch.Generator().manual_seed(3)
    alone = together = 0
    for _ in range(25):
        guesses = [torch.randn(2, 150, generator=generator) for _ in range(40)]
        found = [compare(members, non_members) for members, non_members in guesses]
        alone += any(each.auc.low > 0.5 for each in found)
        together += any(each.among(40).leaks for each in found)
    assert alone > 12
    assert together <= 3


def test_wider_intervals_keep_the_value_and_need_more_non_members() -> None:
    found = compare(torch.linspace(-1, 2, 500), torch.linspace(-2, 1, 500))
    wider = found.among(8)
    assert wider.auc.level == pytest.approx(1 - 0.05 / (5 * 8))
    for one, other in ((found.auc, wider.auc), (found.advantage, wider.advantage), (found.precision, wider.precision)):
        assert other.value == one.value
        assert other.low < one.low < one.high < other.high
    assert found.points[1].enough
    assert not wider.points[1].enough


def test_an_accusation_is_as_often_wrong_as_non_members_score_as_high() -> None:
    found = compare(torch.ones(3), torch.arange(10.0))
    assert found.accusations(torch.tensor([-1.0, 4.0, 4.5, 9.0, 10.0])).tolist() == pytest.approx([1, 0.6, 0.5, 0.1, 0])


def test_it_comes_back_from_json_and_draws_itself() -> None:
    found = compare(torch.linspace(-1, 2, 500), torch.linspace(-2, 1, 500))
    again = Result.from_json(found.to_json())
    assert isinstance(again, Membership)
    assert again.to_json() == found.to_json()
    (ax,) = draw_roc([found, again]).axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


@pytest.mark.parametrize("scores", [torch.empty(0), torch.tensor([np.nan]), torch.ones(2, 2)])
def test_scores_that_are_none_are_refused(scores: torch.Tensor) -> None:
    with pytest.raises(ModelKeepError, match="one finite score"):
        compare(scores, torch.ones(3))
