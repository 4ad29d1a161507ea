"""Audits of tiny trainings on MNIST, and what the report makes of them."""

from __future__ import annotations

import pytest

from modelkeep.papers.leino2022.audited_epsilon import AUDITS, audit, report, trials
from modelkeep.study import StudyResult, Trial
from papers.leino2022.performing import performed


@pytest.fixture(scope="module")
def done() -> StudyResult:
    tiny = {"canaries": 50, "images": 400}
    return performed(
        [
            Trial.of(audit, {**tiny, "epsilon": 4.0, "kind": "gradients"}, 0),
            Trial.of(audit, {**tiny, "epsilon": None, "kind": "records"}, 0),
        ]
    )


def test_what_is_proved_stands_beside_what_is_claimed(done: StudyResult) -> None:
    private, plain = (record.value for record in done.records)
    assert private["proved"] <= private["claimed"] <= 4.0
    assert plain["claimed"] is None
    result = report(done)
    assert len(result.cells) == len(AUDITS)
    assert result.claims[0].holds is True
    result.draw()


def test_each_audit_is_asked_for_once() -> None:
    asked = [(each.parameters["epsilon"], each.parameters["kind"]) for each in trials("small", 0)]
    assert asked == [(epsilon, kind) for _, epsilon, kind in AUDITS]
