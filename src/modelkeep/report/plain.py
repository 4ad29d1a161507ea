"""The page of a result that has no page of its own: its verdict, its picture, its rows."""

from __future__ import annotations

from modelkeep.core.errors import ModelKeepError
from modelkeep.core.results import Result
from modelkeep.report.page import Card, Note, Page, Part, Table
from modelkeep.report.picture import Picture


def plain_page(
    found: Result,
    *,
    title: str,
    verdict: str,
    level: str = "unclear",
    cards: tuple[Card, ...] = (),
    notes: tuple[Note, ...] = (),
    shows: str = "",
) -> Page:
    """The page; `shows` says what can be seen in the result's picture, where it has one."""
    try:
        picture = Picture.of(found.draw(), f"{verdict} {shows}".strip(), shows)
    except ModelKeepError:  # some have none
        picture = None
    rows = Table(found.rows(), summary="In figures" if picture is not None else "")
    pictures = () if picture is None else (picture,)
    return Page(
        result=found,
        title=title,
        verdict=verdict,
        verdict_level=level,
        cards=cards,
        notes=notes,
        notes_title="What was found" if notes else "",
        parts=(Part("What was measured", tables=(rows,), pictures=pictures),),
    )
