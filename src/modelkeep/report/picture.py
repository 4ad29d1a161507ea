"""Picture: what a page shows, inside the page itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from modelkeep.core import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A picture as a data URI, so that the report needs no other file."""

    uri: str
    alt: str
    caption: str

    @classmethod
    def of(cls, figure: Figure, alt: str, caption: str) -> Self:
        """The figure as a picture."""
        return cls(plots.data_uri(figure), alt, caption)

    @property
    def png(self) -> bytes:
        """The picture as the content of a file."""
        return base64.b64decode(self.uri.partition(",")[2])
