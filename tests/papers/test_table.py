"""Tables of a paper: ours beside the paper's, and what is missing is marked."""

from __future__ import annotations

from dataclasses import replace

from modelkeep.core.plots import png_bytes
from modelkeep.core.results import Estimate, Provenance, Result
from modelkeep.papers.table import Cell, PaperTable

HERE = Provenance(None, None, 0, 1.0, "test")


def table_result() -> PaperTable:
    return PaperTable(
        study="s",
        where="table 1",
        cells=(
            Cell("wine", "B", Estimate(0.1, 0.05, 0.15, 20), 0.12),
            Cell("wine", "accuracy", None, 0.9, "a trial is missing"),
            Cell("gold", "B", None, 0.4, "not available here"),
            Cell("gold", "accuracy", None, None, "not available here"),
        ),
        provenance=HERE,
    )


def test_a_table_shows_ours_the_papers_and_what_only_the_paper_has() -> None:
    text = str(table_result())
    for part in ("0.100 [0.050, 0.150]", "0.12", "a trial is missing", "gold: not available here. Paper: B 0.4."):
        assert part in text


def test_a_table_is_stored_and_drawn_and_says_what_other_code_made() -> None:
    result = replace(table_result(), other_code="1 of 4 trials; changed since: attack/gradient/pgd.py")
    again = Result.from_json(result.to_json())
    assert str(again) == str(result)
    assert "Made by other code: 1 of 4 trials; changed since: attack/gradient/pgd.py." in str(again)
    assert png_bytes(again.draw()).startswith(b"\x89PNG")
