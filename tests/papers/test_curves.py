"""Curves of a paper: ours beside the paper's, in text, JSON and picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from modelkeep.core.plots import png_bytes
from modelkeep.core.results import Estimate, Provenance, Result
from modelkeep.papers.curves import PaperCurves, curves
from modelkeep.papers.result import Claim, values
from modelkeep.study import Trial
from records import made

HERE = Provenance(None, None, 0, 1.0, "test")


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


def test_curves_are_stored_and_drawn() -> None:
    again = Result.from_json(curve_result().to_json())
    assert str(again) == str(curve_result())
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


def test_curves_are_gathered_by_parameter_and_skip_what_failed() -> None:
    trials = [Trial("noise", 1, {"x": x}, 0, "") for x in (1, 2, 3)]
    result = made(trials, lambda trial: None if trial.parameters["x"] == 2 else {"y": [trial.parameters["x"], 4.0]})
    x, series = curves(result, x="x", y="y", name=lambda parameters: "all")
    assert x == (1, 2, 3)
    first, second, third = series["all"]
    assert first is not None
    assert first.value == 2.5
    assert second is None
    assert third is not None
    assert values(result.records, x=2) == []
    assert values(result.records, x=3) == [{"y": [3, 4.0]}]
