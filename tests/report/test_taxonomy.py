"""The ids of public taxonomies come from one file, by the id of a finding or of its check."""

from __future__ import annotations

from modelkeep.report.taxonomy import classify


def test_a_finding_has_the_ids_of_its_check_unless_it_has_its_own() -> None:
    assert classify("membership.leaks") == classify("membership.unclear")
    assert "MITRE ATLAS AML.T0024.000" in classify("membership.leaks")
    assert "MITRE ATLAS AML.T0020" in classify("shortcuts.planted-mark")
    assert "MITRE ATLAS AML.T0020" not in classify("shortcuts.none-found")
    assert classify("of-another-package.finding") == ()
