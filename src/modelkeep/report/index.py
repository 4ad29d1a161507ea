"""Index: one page that links all pages of a folder, each with what it found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from modelkeep.core.files import replace_file

NAME = "index.html"
_TITLE = re.compile(r"<title>ModelKeep: (.*?)</title>", re.DOTALL)
_VERDICT = re.compile(r'<div class="verdict (?P<level>\w*)"[^>]*>\s*<p>(?P<text>.*?)</p>', re.DOTALL)
_MOST = 200_000  # letters at the beginning of a page, where both stand


@dataclass(frozen=True)
class Linked:
    """A page of the folder: where it is, its title, and its verdict with the level that colours it."""

    href: str
    title: str
    verdict: str
    level: str


def write_index(folder: Path) -> Path:
    """Write `index.html`, which links every page of ours in the folder and right below it, the newest first."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("modelkeep.report"), autoescape=True, undefined=StrictUndefined)
    with replace_file(folder / NAME) as unfinished:
        text = environment.get_template("index.html").render(pages=list_pages(folder))
        unfinished.write_text(text, encoding="utf-8")
    return folder / NAME


def list_pages(folder: Path) -> list[Linked]:
    """The pages of ours in the folder and right below it, the newest first."""
    found = [path for pattern in ("*.html", "*/*.html") for path in folder.glob(pattern) if path.name != NAME]
    ordered = sorted(found, key=lambda path: (-path.stat().st_mtime, path))
    return [page for path in ordered if (page := read_page(path, folder)) is not None]


def read_page(path: Path, folder: Path) -> Linked | None:
    """A page of ours below the folder; None for any other file."""
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(_MOST)
    title, verdict = _TITLE.search(head), _VERDICT.search(head)
    if title is None:
        return None
    told = ("", "") if verdict is None else (unescape(verdict["text"].strip()), verdict["level"])
    return Linked(path.relative_to(folder).as_posix(), unescape(title[1].strip()), *told)
