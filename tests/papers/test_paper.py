"""Paper studies: reports of what is done, marks where something is missing, claims that can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from modelkeep.core.plots import png_bytes
from modelkeep.core.results import Estimate, Provenance, Result
from modelkeep.papers.paper import Cell, Claim, PaperCurves, PaperStudy, PaperTable, Size, above, curves, mean, values
from modelkeep.study import Ledger, Local, StudyResult, Trial, run

HERE = Provenance(None, None, 0, 1.0, "test")


def trials(size: Size, seed: int) -> list[Trial]:
    xs = {"small": [1, 2], "paper": [1, 2, 3]}[size]
    return [Trial.of("trials:noise", {"x": x}, seed) for x in xs]


def report(result: StudyResult) -> PaperCurves:
    ticks = tuple(record.parameters["x"] for record in result.records)
    found = tuple(mean(record.value or [], 0) for record in result.records)
    return PaperCurves(
        study=result.study,
        where="nowhere",
        x_label="x",
        y_label="noise",
        x=ticks,
        series={"noise": found},
        paper={},
        provenance=result.provenance,
    )


NOISE = PaperStudy(name="noise", where="nowhere", shows="noise", trials=trials, report=report)


def test_sizes_and_seeds_are_studies_of_their_own(ledger: Ledger) -> None:
    assert NOISE.study("paper", 3).name == "noise-paper-seed-3"
    assert len(NOISE.study("paper", 3).trials) == 3
    assert {trial.seed for trial in NOISE.study("paper", 3).trials} == {3}


def test_the_same_seed_gives_the_same_report(ledger: Ledger) -> None:
    first = report(run(NOISE.study("small", 5), ledger, Local(1)))
    with Ledger(":memory:") as other:
        again = report(run(NOISE.study("small", 5), other, Local(1)))
    assert first.series == again.series


def curve_result() -> PaperCurves:
    return PaperCurves(
        study="s",
        where="figure 1",
        x_label="width",
        y_label="bias",
        x=(1.0, 10.0),
        series={"ours": (Estimate(0.25, 0.2, 0.3, 9), None), "other": (None, Estimate(0.5, 0.4, 0.6, 9))},
        paper={"ours": (0.26, 0.31)},
        claims=(Claim("It rises.", "it does.", True), Claim("It falls.", "too few.", None)),
        log_x=True,
        provenance=HERE,
    )


def test_curves_show_ours_beside_the_papers_and_mark_what_is_missing() -> None:
    text = str(curve_result())
    for part in ("0.250 ±0.050", "paper 0.260", "missing", "holds: It rises.", "unclear: It falls."):
        assert part in text
    assert ("ours, width 10", "missing · paper 0.31") in curve_result().rows()


def test_curves_and_tables_are_stored_and_drawn() -> None:
    for result in (curve_result(), table_result()):
        again = Result.from_json(result.to_json())
        assert str(again) == str(result)
        assert png_bytes(again.draw()).startswith(b"\x89PNG")


def test_a_missing_point_is_a_gap_in_the_picture() -> None:
    (ax,) = curve_result().draw().axes
    first, second = np.asarray(next(line for line in ax.lines if line.get_marker() == "o").get_ydata())
    assert first == 0.25
    assert np.isnan(second)


def test_no_two_of_many_curves_look_alike() -> None:
    many = replace(curve_result(), series={f"curve {i}": (None, None) for i in range(8)}, paper={})
    legend = many.draw().axes[0].get_legend()
    assert legend is not None
    assert len({(line.get_color(), line.get_linestyle()) for line in legend.get_lines()}) == 8


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


def test_curves_are_gathered_by_parameter_and_skip_what_failed(ledger: Ledger) -> None:
    result = run(NOISE.study("paper", 0), ledger, Local(1))
    records = [replace(record, value={"y": record.value}) for record in result.records]
    records[1] = replace(records[1], state="failed", value=None)
    result = replace(result, records=tuple(records))
    x, series = curves(result, x="x", y="y", name=lambda parameters: "all")
    assert x == (1, 2, 3)
    first, second, third = series["all"]
    assert first is not None
    assert first.value == pytest.approx(sum(records[0].value["y"]) / 4)
    assert second is None
    assert third is not None
    assert values(result.records, x=2) == []
    assert values(result.records, x=3) == [records[2].value]
