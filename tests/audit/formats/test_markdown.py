"""Markdown as another project's renderer reads it: headings in order, whole tables, nothing that breaks out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from modelkeep.audit import Audit
from modelkeep.audit.formats.markdown import write_markdown

RENDERER = MarkdownIt("commonmark", {"html": True}).enable("table")


def read_headings(tokens: list[Token]) -> list[tuple[int, str]]:
    """The level and the text of each heading."""
    pairs = itertools.pairwise(tokens)
    return [(int(first.tag[1]), second.content) for first, second in pairs if first.type == "heading_open"]


def count_cells(tokens: list[Token]) -> Iterator[int]:
    """How many cells each row of a table has."""
    cells = 0
    for token in tokens:
        cells = 0 if token.type == "tr_open" else cells + (token.type in ("td_open", "th_open"))
        if token.type == "tr_close":
            yield cells


def check_document(text: str) -> list[tuple[int, str]]:
    """Check what all documents share; the headings."""
    tokens = RENDERER.parse(text)
    headings = read_headings(tokens)
    levels = [level for level, _ in headings]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(second <= first + 1 for first, second in itertools.pairwise(levels))
    assert all(count > 1 for count in count_cells(tokens))
    html = RENDERER.render(text)
    assert "<script" not in html
    assert not any(token.type == "html_block" for token in tokens)
    return headings


def test_it_renders(written: Audit) -> None:
    headings = [text for _, text in check_document(write_markdown(written))]
    assert headings[-1] == "Made by"


def test_every_finding_is_there_with_its_status(audits: dict[str, Audit]) -> None:
    text = write_markdown(audits["hostile"])
    tokens = RENDERER.parse(text)
    assert set(count_cells(tokens)) == {4, 3}
    html = RENDERER.render(text)
    for status in ("fail", "ignored", "inconclusive"):
        assert f"<td>{status}</td>" in html
    assert "<h2>Not run</h2>" in html
    assert "until 2100-01-01" in html
