"""Picture: what a page shows, inside the page itself."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field

from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.core.svg import WIDE_TEXT, WIDTH, is_chart, is_plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PNG, _SVG = "data:image/png;base64,", "data:image/svg+xml;base64,"
_LEAST = 11.0  # pixels of the smallest text on a screen
_RASTER_TEXT = 8 * 120 / 72  # pixels of the smallest text of our PNG, at 120 dots an inch
_VIEW_BOX = re.compile(r'viewBox="0 0 ([\d.]+) [\d.]+"')


@dataclass(frozen=True)
class Picture:
    """A picture as a data URI, so that the report needs no other file: a chart as SVG, all else as PNG.

    `alt` says in words what can be seen in it. `raster` is the PNG of a chart, for a file of its own.
    """

    uri: str
    alt: str
    caption: str
    raster: Annotated[bytes, Field(exclude=True)] = field(default=b"", repr=False)

    @classmethod
    def of(cls, figure: Figure, alt: str, caption: str) -> Self:
        """The figure as a picture."""
        uri = plots.data_uri(figure)  # first: it makes the layout
        return cls(uri, alt, caption, plots.png_bytes(figure) if is_chart(figure) else b"")

    @property
    def png(self) -> bytes:
        """The picture as the content of a file."""
        if self.uri.startswith(_PNG):
            return base64.b64decode(self.uri.removeprefix(_PNG))
        if not self.raster:
            raise InputError("This chart has no PNG: it was read from a file. Use its SVG.")
        return self.raster

    @property
    def svg(self) -> str:
        """The chart as SVG that may stand inside a page; empty for a PNG, and for an SVG that does more than draw."""
        if not self.uri.startswith(_SVG):
            return ""
        text = base64.b64decode(self.uri.removeprefix(_SVG)).decode()
        return text if is_plain(text) else ""

    @property
    def least_width(self) -> int:
        """Pixels below which its text could not be read any more; 0 where it fits a phone."""
        if found := _VIEW_BOX.search(self.svg):
            width = float(found[1])
            return 0 if width <= 72 * WIDTH else round(width * _LEAST / WIDE_TEXT)
        if self.uri.startswith(_PNG):
            return round(int.from_bytes(self.png[16:20]) * _LEAST / _RASTER_TEXT)  # the width in its header
        return 0
