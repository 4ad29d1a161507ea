"""Charts as SVG: the text is text and large enough, colours are the page's, and nothing but drawing is let into one."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch
from matplotlib.figure import Figure

from modelkeep.core import plots
from modelkeep.core.results import Estimate
from modelkeep.core.svg import is_chart, is_plain, svg_text

HALF = Estimate(0.5, 0.25, 0.75, 20)
NAMESPACE = "{http://www.w3.org/2000/svg}"


def chart(title: str = "A title") -> Figure:
    return plots.curve([0.0, 0.1], {"PGD <b>": [HALF, HALF], "noise": [HALF, HALF]}, title=title, x_label="radius")


def texts(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{NAMESPACE}text"))


def test_its_words_can_be_read_and_searched() -> None:
    words = [text.text for text in texts(svg_text(chart()))]
    assert {"A title", "radius", "PGD <b>", "noise", "0.5"} <= set(words)


def test_text_is_eleven_pixels_high_where_the_chart_is_350_pixels_wide() -> None:
    drawn = svg_text(chart())
    box = re.search(r'viewBox="0 0 ([\d.]+) ', drawn)
    assert box is not None
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", drawn)]
    assert min(sizes) * 350 / float(box[1]) >= 11


def test_a_chart_of_many_bars_grows_so_that_no_name_covers_another() -> None:
    drawn = svg_text(plots.bars({f"class {i}": HALF for i in range(40)}))
    heights = sorted(float(text.attrib["y"]) for text in texts(drawn) if (text.text or "").startswith("class"))
    assert min(b - a for a, b in pairwise(heights)) >= 12.7


def test_a_long_name_of_a_row_leaves_room_for_its_bar() -> None:
    long = "<script>document.title='stolen'</script>: predictions"
    words = [text.text for text in texts(svg_text(plots.bars({long: HALF, "b": HALF})))]
    assert "<script>documen…predictions" in words
    assert "b" in words


def test_colours_are_those_of_the_page_with_a_light_one_for_a_file_of_its_own() -> None:
    drawn = svg_text(chart())
    for name, colour in (("ink", "#222222"), ("muted", "#666666"), ("grid", "#e6e6e6"), ("1", "#0072b2")):
        assert f"var(--chart-{name}, {colour})" in drawn
        assert f": {colour}" not in drawn


def test_the_same_chart_is_the_same_text_and_two_charts_share_no_id() -> None:
    assert svg_text(chart()) == svg_text(chart())
    first, second = (set(re.findall(r'\bid="([^"]+)"', svg_text(chart(title)))) for title in "ab")
    assert first
    assert first & second == set()
    drawn = svg_text(chart())
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', drawn))
    assert {a or b for a, b in used} <= set(re.findall(r'\bid="([^"]+)"', drawn))


def test_pictures_are_no_charts() -> None:
    assert is_chart(chart())
    assert not is_chart(plots.image_grid(torch.zeros(1, 1, 4, 4)))
    assert not is_chart(plots.figure())


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        '<path onload="alert(1)" d=""/>',
        '<use href="https://example.com/a.svg#a"/>',
        '<image href="https://example.com/a.png"/>',
        '<path style="fill: url(https://example.com/a)" d=""/>',
        "<foreignObject/>",
        "<unclosed>",
    ],
)
def test_what_does_more_than_draw_is_not_plain(inside: str) -> None:
    frame = '<svg xmlns="http://www.w3.org/2000/svg">{}</svg>'
    assert is_plain(frame.format('<path style="clip-path: url(#a)" d=""/>'))
    assert is_plain(svg_text(chart()))
    assert not is_plain(frame.format(inside))
