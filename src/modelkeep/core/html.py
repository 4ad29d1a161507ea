"""How models, data and results show themselves in a notebook: a small table and, where there is one, the picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from modelkeep.core.errors import ModelKeepError, join_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from modelkeep.core.data import Data
    from modelkeep.core.model import Model
    from modelkeep.core.results import Result

_SHOWN = 8  # examples: one row of pictures
_CELL = "text-align:left;vertical-align:top"


def model_html(model: Model) -> str:
    """The table of a model."""
    parameters = sum(each.numel() for each in model.module.parameters())
    rows = [
        ("input", f"{model.input_shape}, values in {model.bounds}" if model.bounds else str(model.input_shape)),
        ("classes", f"{len(model.classes)}: {join_names(model.classes)}"),
        ("parameters", f"{parameters:,} on {model.device}"),
    ]
    return _block(f"Model: {type(model.module).__name__}", rows)


def data_html(data: Data) -> str:
    """The table of data, and of pictures the first few."""
    rows = [
        ("examples", f"{len(data):,} of shape {data.input_shape}"),
        ("classes", f"{len(data.classes)}: {join_names(data.classes)}"),
        ("source", data.source),
    ]
    if data.features is not None:
        rows.insert(1, ("features", join_names(data.features)))
    return _block(f"Data: {data.name}", rows, _first_pictures(data))


def result_html(result: Result) -> str:
    """The rows of a result, its picture, and how to make it again."""
    from rich.errors import MarkupError
    from rich.text import Text

    def plain(text: str) -> str:
        try:
            return Text.from_markup(text).plain
        except MarkupError:  # a name with brackets
            return text

    rows = [(plain(label), plain(value)) for label, value in result.rows()]
    p = result.provenance
    made = [f"seed {p.seed} · {p.seconds:.2f} s · modelkeep {p.version}", result.command, result.python]
    try:
        picture = result.draw()
    except (ModelKeepError, ImportError):  # some have none
        picture = None
    return _block(type(result).__name__, rows, picture, [line for line in made if line])


def _first_pictures(data: Data) -> Figure | None:
    """The first examples, where each has one or three channels; None for a table."""
    from modelkeep.core import plots

    shape = data.input_shape
    if len(shape) != 3 or shape[0] not in (1, 3) or len(data) == 0:
        return None
    first = data.first(_SHOWN)
    titles = [data.classes[int(label)].replace("$", r"\$") for label in first.y]  # no formula
    return plots.image_grid(first.x, titles, bounds=data.bounds or (float(first.x.min()), float(first.x.max()) + 1e-9))


def _block(
    title: str, rows: Sequence[tuple[str, str]], picture: Figure | None = None, below: Sequence[str] = ()
) -> str:
    """A title, a table and a picture. Everything is escaped: names come from files of other people."""
    from modelkeep.core import plots

    lines = "".join(
        f'<tr><th style="{_CELL}">{escape(label)}</th>'
        f'<td style="{_CELL};white-space:pre-wrap">{escape(value)}</td></tr>'
        for label, value in rows
    )
    drawn = ""
    if picture is not None:
        drawn = f'<img alt="{escape(title)}" style="max-width:100%" src="{plots.data_uri(picture)}">'
    notes = "".join(f'<div style="opacity:.7;font-size:small">{escape(line)}</div>' for line in below)
    return f"<div><strong>{escape(title)}</strong><table>{lines}</table>{drawn}{notes}</div>"
