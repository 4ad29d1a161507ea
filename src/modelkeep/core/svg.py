"""Charts as SVG: text that a phone can show, and colours that follow the page from light to dark."""

from __future__ import annotations

import io
import re
import textwrap
from hashlib import sha256
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.6
"""Inches that a chart is wide. On a screen of 390 pixels it is shown at least 335 pixels wide."""
TEXT = 13.3
"""Points of its smallest text: 72 × `WIDTH` points shown on 335 pixels make 11 pixels of it."""
WIDE, WIDE_TEXT = 7.0, 9.0
"""A chart of more inches than that has several panels side by side. It keeps its width, and a phone scrolls it."""
_LINE = 1.5  # of the smallest text: what a line takes
_TITLE = 42  # letters of a line of the title
_NAME = 26  # letters of a row's name: more would leave no room for its bar
_TICKS = 6  # along the bottom
_FONT = "'DejaVu Sans', Verdana, system-ui, sans-serif"
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
# What the page sets for light and for dark, and what a file of its own shows.
_THEME = {
    "#ffffff": "--chart-paper",
    "#222222": "--chart-ink",
    "#666666": "--chart-muted",
    "#e6e6e6": "--chart-grid",
    "#0072b2": "--chart-1",
    "#d55e00": "--chart-2",
    "#009e73": "--chart-3",
    "#cc79a7": "--chart-4",
    "#e69f00": "--chart-5",
    "#56b4e9": "--chart-6",
    "#9ccbe6": "--chart-1-light",
}
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}\b")
_ELEMENTS = {"svg", "g", "defs", "path", "use", "clipPath", "rect", "text", "tspan", "title", "pattern"}
_NAMED_GROUP = re.compile(r' id="[A-Za-z]+[\w.]*_\d+"')
_ID = re.compile(r'(?<= id=")|(?<=href="#)|(?<=url\(#)')


def is_chart(figure: Figure) -> bool:
    """Whether the figure holds lines and bars alone: pictures and maps of pixels stay PNG."""
    return bool(figure.axes) and not any(ax.get_images() or _is_solid(ax) for ax in figure.axes)


def svg_text(figure: Figure) -> str:
    """The chart as SVG: the same figure gives the same text. Its layout is made for a phone, and made once."""
    import matplotlib

    _make_legible(figure)
    buffer = io.StringIO()
    # Text stays text, so that it can be read aloud and searched; the salt makes ids the same each time.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "modelkeep"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    figure.set_layout_engine("none")
    return _themed(buffer.getvalue())


def is_plain(svg: str) -> bool:
    """Whether this SVG draws and does no more, so that it may stand inside a page: no script, no address."""
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError:
        return False
    for element in root.iter():
        name = element.tag.removeprefix(f"{{{_SVG}}}")
        if name not in _ELEMENTS:
            return False
        for attribute, value in element.attrib.items():
            if attribute.lower().startswith("on") or "url(" in value.replace("url(#", ""):
                return False
            if attribute in ("href", _XLINK) and not value.startswith("#"):
                return False
    return True


def _is_solid(ax: Axes) -> bool:
    return ax.name == "3d"


def _make_legible(figure: Figure) -> None:
    """At most so wide, and no text smaller than so; what then needs more room gets it in height."""
    from matplotlib.text import Text
    from matplotlib.ticker import AutoLocator, FixedLocator

    width, height = figure.get_size_inches()
    least = WIDE_TEXT if width > WIDE else TEXT
    width = width if width > WIDE else WIDTH
    if len(figure.axes) == 1:
        _move_title(figure, figure.axes[0])
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_fontsize(max(least, text.get_fontsize()))
    for ax in figure.axes:
        if isinstance(ax.xaxis.get_major_locator(), AutoLocator):
            ax.locator_params(axis="x", nbins=_TICKS)
        names = [label.get_text() for label in ax.get_yticklabels()]
        if isinstance(ax.yaxis.get_major_locator(), FixedLocator) and any(len(name) > _NAME for name in names):
            ax.set_yticklabels([_shorten(name) for name in names])
        for axis in (ax.xaxis, ax.yaxis):
            sizes = [label.get_fontsize() for label in axis.get_ticklabels()]
            axis.set_tick_params(labelsize=max([least, *sizes]))
    rows = max(len(ax.get_yticklabels()) for ax in figure.axes)
    figure.set_size_inches(width, max(height, rows * _LINE * least / 72))


def _shorten(name: str) -> str:
    """A long name without its middle: names of one kind often differ at an end.

    >>> _shorten("conv2d_block_1.depthwise.normalisation")
    'conv2d_block_1.…rmalisation'
    """
    return name if len(name) <= _NAME else f"{name[:15]}…{name[-11:]}"


def _move_title(figure: Figure, ax: Axes) -> None:
    """A title that begins where the axes begin is cut where their labels are long: it begins at the edge instead."""
    title = ax.get_title(loc="left")
    if title:
        ax.set_title("", loc="left")
        size, weight = ax.title.get_fontsize(), "bold"
        told = "\n".join(textwrap.wrap(title, _TITLE))
        figure.suptitle(told, x=0.02, ha="left", color="#222222", fontsize=size, fontweight=weight)


def _themed(drawn: str) -> str:
    """Without head and metadata, colours as variables of the page, and ids that no other chart has."""
    body = drawn[drawn.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", body, count=1, flags=re.DOTALL)
    look = f"font-family: {_FONT}; stroke-linejoin: round; stroke-linecap: butt"
    body = re.sub(r'(<svg [^>]*?)width="[\d.]+pt" height="[\d.]+pt"', rf'\1style="{look}"', body, count=1)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = _NAMED_GROUP.sub("", body)
    body = _COLOUR.sub(_variable, body)
    body = re.sub(r"font-family: 'DejaVu Sans', 'Bitstream[^;\"]*; ", "", body)
    own = sha256(body.encode()).hexdigest()[:8]
    return _ID.sub(f"c{own}-", body)


def _variable(match: re.Match[str]) -> str:
    name = _THEME.get(match[0])
    return match[0] if name is None else f"var({name}, {match[0]})"
