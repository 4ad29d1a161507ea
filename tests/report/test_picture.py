"""A picture is text, has a PNG for a file, and says how wide it must be to be read."""

from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter

from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate
from modelkeep.report import Picture

HALF = Estimate(0.5, 0.25, 0.75, 20)


def test_a_chart_is_svg_in_the_page_and_png_in_a_file() -> None:
    chart = Picture.of(plots.bars({"a": HALF}), "half", "caption")
    assert chart.svg.startswith("<svg")
    assert chart.png.startswith(b"\x89PNG")
    assert chart.least_width == 0, "it fits a phone"
    again = TypeAdapter(Picture).validate_json(TypeAdapter(Picture).dump_json(chart))
    assert again.svg == chart.svg
    with pytest.raises(InputError, match="has no PNG"):
        _ = again.png


def test_pictures_are_png_and_as_wide_as_their_titles_need() -> None:
    photo = Picture.of(plots.image_grid(torch.zeros(8, 1, 4, 4), list("abcdefgh")), "grey", "caption")
    assert photo.svg == ""
    assert photo.png.startswith(b"\x89PNG")
    assert photo.least_width == round(1200 * 11 / (8 * 120 / 72))  # ten inches at 120 dots, titles of 8 points


def test_a_chart_with_panels_side_by_side_keeps_its_width() -> None:
    drawn = plots.figure(10, 3)
    cells = drawn.add_gridspec(1, 3)
    for i in range(3):
        plots.axes(drawn, "panel", at=cells[0, i])
    assert Picture.of(drawn, "three", "caption").least_width == round(720 * 11 / 9)
