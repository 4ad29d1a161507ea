"""The completion page in a real browser: it opens offline and says what was found, in words, steps and money."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from browser import chromium
from modelkeep.completion.curve import Curve
from modelkeep.completion.hardness import Hardness, Retraining, measure_hardness
from modelkeep.completion.price import Price
from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate
from modelkeep.report import completion_page
from modelkeep.report.verdicts import completion_verdict

ORIGINAL = Curve(tuple(range(0, 101, 10)), tuple(1 - step / 100 for step in range(0, 101, 10)))
TOO_WIDE = "return document.documentElement.scrollWidth - window.innerWidth"


def _found(costs: dict[tuple[str, str], tuple[int, ...]], seconds: float | None = 36.0) -> Hardness:
    """Retrainings that reach the best loss after so many steps; one after 101 steps or more ended before."""
    runs = []
    for (part, procedure), steps in costs.items():
        for seed, cost in enumerate(steps):
            curve = Curve((0, cost), (1.0, 0.0)) if cost <= 100 else Curve((0, 100), (1.0, 0.5))
            runs.append(Retraining(part, procedure, seed, ORIGINAL, curve, seconds, "", seconds))
    return measure_hardness(runs)


FOUND = _found(
    {
        ("conv1", "T1"): (70, 80, 90),
        ("conv1", "T2"): (101, 101, 90),
        ("logits", "T1"): (40, 30, 50),
        ("logits", "T2"): (10, 20, 30),
    }
)


def test_the_answer_names_the_hardest_and_the_easiest_part() -> None:
    assert completion_verdict(FOUND) == (
        "The hardest part to get back is 'conv1', with at most 80 % of the original training (by T1); the easiest is "
        "'logits', with at most 20 % of the original training (by T2). Among the procedures, T1 is strongest for "
        "1 of 2 parts."
    )


def test_the_answer_for_one_part_and_where_nothing_helps() -> None:
    assert completion_verdict(_found({("conv1", "T1"): (50,)})) == (
        "To get 'conv1' back takes at most 50 % of the original training (by T1)."
    )
    nothing = completion_verdict(_found({("conv1", "T1"): (101,), ("logits", "T1"): (100,)}))
    assert "no procedure is faster than training from scratch for all parts" in nothing


def test_the_page_opens_and_tells_costs_in_steps_and_money(tmp_path: Path) -> None:
    page = completion_page(FOUND, Price(2.5, "€"), subject="lenet")
    written, *_ = page.write(tmp_path / "out", "report.html", "result.json")
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", written.read_text()), "the page must need no other file"
    with chromium(tmp_path / "profile") as browser:
        browser.get(written.as_uri())
        assert browser.title == "ModelKeep: How hard is lenet to complete?"
        text = browser.execute_script("return document.querySelector('main').innerText").replace("\u00a0", " ")
        assert completion_verdict(FOUND) in text
        assert "An upper bound only" in text
        assert "T1: joint; T2: rest frozen" in text
        # 80 of 100 steps of 36 s are 0.8 h of 1 h.
        row = r"conv1\s+T1\s+0\.80 \(0\.70 to 0\.90\)\s+80 of 100\s+48\.0 min\s+€ 2\.00 of € 2\.50"
        assert re.search(row, text)
        assert "2 of 12 runs ended before they got there" in text
        images = browser.execute_script(
            "return [...document.querySelectorAll('figure svg')].map(s => s.viewBox.baseVal.width > 100)"
        )
        assert images == [True]
        assert browser.get_log("browser") == []
        for width in (1200, 400):  # a desk and a phone
            browser.set_window_size(width, 900)
            assert browser.execute_script(TOO_WIDE) <= 0, f"the page is too wide at {width} px"


def test_without_a_price_or_times_there_is_no_money() -> None:
    page = completion_page(_found({("conv1", "T1"): (50, 60)}, seconds=None)).render()
    assert "<th>cost</th>" not in page
    assert "<th>time</th>" not in page
    asked = completion_page(_found({("conv1", "T1"): (50, 60)}, seconds=None), Price(2.5)).render()
    assert "not timed" in asked


def test_names_from_outside_cannot_run_in_the_page() -> None:
    evil = "<script>document.title='stolen'</script>"
    found = replace(FOUND, cells=tuple(replace(cell, part=evil) for cell in FOUND.cells if cell.part == "conv1"))
    page = completion_page(found, Price(1.0, evil), subject=evil).render()
    assert "<script>" not in page


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "$ 0.00"), (3.6, "$ 0.0020"), (3600, "$ 2.00"), (3.6e6, "$ 2,000.00")]
)
def test_small_amounts_keep_two_digits(seconds: float, expected: str) -> None:
    assert Price(2.0, "$").of(seconds).replace("\u00a0", " ") == expected


def test_a_price_is_not_below_nothing() -> None:
    with pytest.raises(InputError, match="at least 0"):
        Price(-1.0)


def test_one_seed_has_no_interval() -> None:
    from modelkeep.report.completion import _range

    assert _range(Estimate(0.83, 0.83, 0.83, 1)) == "no interval: 1 seed"
