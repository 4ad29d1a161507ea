"""The curve is the attack's own; at each rate as many non-members are accused as it allows, and no more."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.core.results import Provenance
from modelkeep.privacy import Knowledge, Loss, Membership
from modelkeep.web.membership_curve import Leak, MembershipCurve

NOWHERE = Provenance(model=None, data=None, seed=0, seconds=0.0, version="0")
scores = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=30).map(torch.tensor)


def curve_of(members: torch.Tensor, others: torch.Tensor) -> MembershipCurve:
    return MembershipCurve(Membership.of("by hand", members, others, NOWHERE))


@given(scores, scores, st.floats(0.001, 0.999))
def test_what_falls_lies_above_a_threshold_that_keeps_the_rate(
    members: torch.Tensor, others: torch.Tensor, rate: float
) -> None:
    found = curve_of(members, others).at(rate)
    assert found.members == int((members > found.threshold).sum())
    assert found.accused == int((others > found.threshold).sum())
    assert found.accused <= rate * len(others) + 1e-6
    assert found.found.value == found.members / len(members)
    for record in found.records:
        assert float(members[record.row]) == record.score > found.threshold
        assert record.as_high == int((others >= record.score).sum())


def test_too_few_records_are_inconclusive_whatever_is_found() -> None:
    perfect = curve_of(torch.ones(50), torch.zeros(20))
    found = perfect.at(0.01)
    assert found.members == 50
    assert not found.claimed
    assert found.sentence.startswith("Inconclusive")
    assert perfect.at(0.5).sentence.startswith("Beyond doubt")
    same = curve_of(torch.arange(50.0), torch.arange(50.0))
    assert same.at(0.5).sentence.startswith("Chance may find as many")


def test_the_drawn_curve_passes_through_what_is_found() -> None:
    generator = torch.Generator().manual_seed(1)
    curve = curve_of(torch.rand(300, generator=generator) + 0.2, torch.rand(40, generator=generator))
    for rate in (0.01, 0.1, 0.5):
        found = curve.at(rate)
        assert (found.accused / 40, found.found.value) in curve.corners


def test_the_drawn_curve_runs_from_corner_to_corner_and_is_thinned() -> None:
    generator = torch.Generator().manual_seed(0)
    curve = curve_of(torch.rand(5000, generator=generator), torch.rand(5000, generator=generator))
    assert curve.corners[0] == (0.0, 0.0)
    assert curve.corners[-1] == (1.0, 1.0)
    assert len(curve.corners) < 1000
    assert curve.rates[0] == 1 / 5000
    assert list(curve.rates) == sorted(curve.rates)


def test_a_leak_is_measured_as_modelkeep_privacy_measures_it(trained_cnn: Model, digits: tuple[Data, Data]) -> None:
    train, test = digits
    found = Leak(trained_cnn, train, test).curve("loss").found
    others, held = test.split(0.5, 0.5, seed=0)
    expected = Loss()(trained_cnn, train, others, Knowledge(held))
    torch.testing.assert_close(found.members, expected.members, rtol=0, atol=0)
    assert found.auc == expected.auc


def test_refusals(trained_cnn: Model, digits: tuple[Data, Data]) -> None:
    train, test = digits
    with pytest.raises(InputError, match="20 or more records"):
        Leak(trained_cnn, train, test.first(10))
    with pytest.raises(InputError, match="one of loss, modified-entropy"):
        Leak(trained_cnn, train, test).curve("lira")
    with pytest.raises(InputError, match="between 0 and 1"):
        curve_of(torch.ones(2), torch.ones(2)).at(1.0)
