"""The draft along Annex IV has its nine points, and marks what an audit cannot know."""

from __future__ import annotations

from audit.formats.test_markdown import check_document
from modelkeep.audit import Audit
from modelkeep.audit.formats.annex_iv import write_annex_iv


def test_it_has_the_nine_points_in_order(written: Audit) -> None:
    headings = check_document(write_annex_iv(written))
    points = [text.partition(".")[0] for level, text in headings if level == 2]
    assert points == [str(number) for number in range(1, 10)]


def test_each_point_has_a_gap_and_none_is_hidden(written: Audit) -> None:
    parts = write_annex_iv(written).split("\n## ")[1:]
    assert all("**GAP: " in part for part in parts)


def test_an_empty_audit_fills_nothing(audits: dict[str, Audit]) -> None:
    text = write_annex_iv(audits["empty"])
    assert "GAP: nothing was measured" in text
    assert "|" not in text
