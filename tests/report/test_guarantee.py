"""The measured advantage stands beside both bounds, and a guarantee that is refuted is called so."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Result
from modelkeep.audit.membership import judge
from modelkeep.core.guarantee import Guarantee
from modelkeep.core.results import measured
from modelkeep.privacy import Membership
from modelkeep.report import PrivacyReport, privacy_page
from privacy.little_world import gaussian_records


def reported(epsilon: float | None, members: torch.Tensor) -> PrivacyReport:
    with measured(0) as provenance:
        found = Membership.of("loss", members, torch.linspace(-2, -1, 300), provenance())
    guarantee = None if epsilon is None else Guarantee(epsilon, 1e-5, "dp-sgd")
    return PrivacyReport(
        provenance=found.provenance, model_name="m", data_name="d", attacks=(found,), exposed=(), guarantee=guarantee
    )


def test_a_guarantee_that_no_attack_contradicts() -> None:
    found = reported(0.25, torch.linspace(-2, -1, 300))
    rows = dict(found.rows())
    assert rows["advantage, at most"] == "0.124 (e^ε − 1 = 0.284)"
    assert rows["its file guarantees"].startswith("ε = 0.25")
    page = privacy_page(found, gaussian_records(4, 0))
    assert "Beside the guarantee" in page.render()
    assert all(note.id != "privacy/guarantee" for note in page.notes)
    assert Result.from_json(found.to_json()).to_json() == found.to_json()


def test_a_guarantee_that_an_attack_refutes() -> None:
    page = privacy_page(reported(0.25, torch.linspace(1, 2, 300)), gaussian_records(4, 0))
    assert page.notes[0].title == "The guarantee does not hold"
    assert page.notes[0].severity == "high"


@pytest.mark.parametrize("epsilon", [None, 4.0])
def test_a_vacuous_bound_and_no_guarantee_are_said(epsilon: float | None) -> None:
    rows = dict(reported(epsilon, torch.linspace(1, 2, 300)).rows())
    assert ("advantage, at most" in rows) == (epsilon is not None)
    assert epsilon is None or "is vacuous" in rows["advantage, at most"]


def test_the_audit_says_it_in_a_sentence() -> None:
    found = reported(0.25, torch.linspace(-2, -1, 300))
    assert "allows an advantage of 0.124" in judge(found.attacks, 0, found.guarantee).measured
    assert "advantage" not in judge(found.attacks, 0).measured
