"""The page of a paper study: our table or figure beside the paper's."""

from __future__ import annotations

from modelkeep.core.results import Result
from modelkeep.report.page import Page
from modelkeep.report.plain import plain_page
from modelkeep.study.study import StudyResult


def study_page(report: Result, name: str, size: str, result: StudyResult) -> Page:
    """The page of what the trials gave; it does not judge whether the paper's figures are met."""
    done = sum(record.state == "done" for record in result.records)
    all_of = len(result.records)
    verdict = f"{done} of {all_of} trials are done, at the size '{size}'. Ours stands beside the paper's below."
    if done < all_of:
        verdict = f"Only {done} of {all_of} trials are done, at the size '{size}': what is below is incomplete."
    return plain_page(
        report,
        title=f"The study {name}",
        verdict=verdict,
        level="unclear" if done == all_of else "medium",
        shows="Ours with 95 % intervals, beside the paper's where it gives them.",
    )
