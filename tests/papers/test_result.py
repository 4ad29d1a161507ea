"""Claims of a paper can hold, fail and stay open."""

from __future__ import annotations

import pytest

from modelkeep.core.results import Estimate
from modelkeep.papers.result import above


@pytest.mark.parametrize(
    ("larger", "smaller", "verdict"),
    [
        (Estimate(0.9, 0.8, 1.0, 9), Estimate(0.2, 0.1, 0.3, 9), "holds"),
        (Estimate(0.2, 0.1, 0.3, 9), Estimate(0.9, 0.8, 1.0, 9), "does not hold"),
        (Estimate(0.9, 0.2, 1.0, 9), Estimate(0.2, 0.1, 0.3, 9), "unclear"),
        (None, Estimate(0.2, 0.1, 0.3, 9), "unclear"),
    ],
)
def test_a_comparison_holds_only_where_the_intervals_are_apart(
    larger: Estimate | None, smaller: Estimate | None, verdict: str
) -> None:
    assert above("A beats B.", "here", larger, smaller).verdict == verdict
