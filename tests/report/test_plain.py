"""Pages of results that have none of their own: a certificate, a study, an audit of ledgers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from modelkeep.core.results import Estimate, Provenance, Result
from modelkeep.govern.ledger.audit import Audit
from modelkeep.govern.ledger.findings import Finding
from modelkeep.report.certification import CertificateReport, certification_page
from modelkeep.report.ledger_audit import ledger_audit_page
from modelkeep.report.plain import plain_page
from report.test_page import little

SOURCE = Provenance(None, None, 0, 0.0, "0")
REPORT = CertificateReport(
    provenance=SOURCE,
    norm="l2",
    radius=0.5,
    guarantee="standard",
    certified=Estimate.rate(3, 4),
    verified=Estimate.rate(2, 4),
    radii=(0.1, 0.6, 0.9, None),
)


def test_a_certificate_tells_what_is_proved_and_draws_the_share_at_each_radius() -> None:
    page = certification_page(REPORT, model_name="net", data_name="digits")
    assert page.verdict == "For 75.0 % of 4 inputs it is proved that no change within 0.5 in l2 matters."
    assert [card.value for card in page.cards] == ["75.0 %", "50.0 %"]
    drawn = np.asarray(REPORT.draw().axes[0].lines[0].get_xydata())
    assert drawn[0].tolist() == [0.0, 1.0]
    assert drawn[-1].tolist() == [0.9, 0.25], "below 0.9 is not at 0.9"
    assert Result.from_json(REPORT.to_json()).to_json() == REPORT.to_json()
    html = page.render()
    assert html.index("<svg") < html.index("<summary>In figures</summary>")
    unlabelled = certification_page(replace(REPORT, verified=None), model_name="net", data_name="digits")
    assert len(unlabelled.cards) == 1


def test_a_result_without_a_picture_shows_its_rows() -> None:
    html = plain_page(little(), title="t", verdict="v").render()
    assert "<svg" not in html
    assert ">share</th>" in html
    assert "<summary>In figures" not in html


@pytest.mark.parametrize(
    ("missing", "findings", "level"), [((), 0, "good"), (("bob",), 0, "unclear"), (("bob",), 1, "high")]
)
def test_ledgers_are_good_only_where_all_were_there(missing: tuple[str, ...], findings: int, level: str) -> None:
    wrong = Finding("damaged", "alice", 3, None, "The entry does not fit its digest.")
    found = Audit(
        provenance=SOURCE, agreement="ab" * 32, ledgers=(), missing=missing, stretches=(), findings=(wrong,) * findings
    )
    page = ledger_audit_page(found)
    assert page.verdict_level == level
    assert ("Not audited: bob." in page.verdict) == bool(missing)
    assert [note.title for note in page.notes] == ["alice, entry 3"] * findings
    assert page.render()
