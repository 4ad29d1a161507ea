"""Page: the one form of all pages that people read. Each is one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Self

from modelkeep.core.errors import ModelKeepError
from modelkeep.core.files import replace_file
from modelkeep.core.progress import command_seconds, with_sources
from modelkeep.report.index import write_index
from modelkeep.report.measure import percent, points
from modelkeep.report.picture import Picture

if TYPE_CHECKING:
    from modelkeep.attack.result import Rewritten
    from modelkeep.core.results import Estimate, Result
    from modelkeep.report.explanations import Explanations


_TOP = 3  # findings that a reader takes in at once


@dataclass(frozen=True)
class Card:
    """A main measure: its name, its value and its interval as a person reads them.

    A `span` is drawn on a line from 0 to 1.
    """

    title: str
    value: str
    interval: str
    span: Estimate | None = None

    @classmethod
    def of_share(cls, title: str, share: Estimate) -> Self:
        """A share between 0 and 1, in per cent."""
        interval = f"{percent(share.low)} to {percent(share.high)}, {share.n} examples"
        return cls(title, percent(share.value), interval, share)

    @classmethod
    def of_difference(cls, title: str, difference: Estimate) -> Self:
        """A difference of shares, in percentage points with its sign."""
        interval = f"{points(difference.low)} to {points(difference.high)}, {difference.n} examples"
        return cls(title, f"{points(difference.value)} points", interval)


@dataclass(frozen=True)
class Note:
    """Something that a person should know. `severity` gives its colour: high, medium, low, unclear or good.

    `facts` are short values by their names, such as the interval, the attacker's access and the queries. `commands`
    are lines to copy by what they do. `pictures` are the evidence: the first is shown, the others are folded.
    `status` is pass, fail, inconclusive or not run, where the note is the outcome of a check.
    """

    severity: str
    label: str
    title: str
    text: str
    remedy: str = ""
    taxonomy: tuple[str, ...] = ()
    id: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    pictures: tuple[Picture, ...] = ()
    status: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of text. With a `summary` it is folded behind that line, unless it is `open`.

    The `caption` is for those who cannot see where the table stands; by default the title of its section.
    """

    rows: Sequence[Sequence[str]]
    header: Sequence[str] = ()
    summary: str = ""
    open: bool = False
    caption: str = ""


@dataclass(frozen=True)
class Part:
    """A section of a page: its pictures, its explanations, the texts that were changed, its tables.

    A table beside pictures is folded, unless it is `open`: figures are for those who want to check.
    """

    title: str
    lead: str = ""
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    explanations: Explanations | None = None
    texts: tuple[Rewritten, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """A result as a page: what was found, the main measures, what to know, then section by section.

    `verdict_level` colours the verdict: high, medium, low, good or unclear. `facts` are what it is about, by name: the
    date, the model, the data, what was not run. `repeats` are the results whose command and Python line the page shows;
    by default the result itself. `pictures` are written as files of their own, too, by these names.
    """

    result: Result
    title: str
    verdict: str = ""
    verdict_level: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    lead: str = ""
    cards: tuple[Card, ...] = ()
    notes: tuple[Note, ...] = ()
    notes_title: str = ""
    parts: tuple[Part, ...] = ()
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    repeats: tuple[Result, ...] = ()

    @property
    def top(self) -> tuple[tuple[str, Note], ...]:
        """The first three notes of a list of findings with their anchors, to be read right below the verdict."""
        return self.anchored_notes[:_TOP] if self.notes_title else ()

    @property
    def anchored_notes(self) -> tuple[tuple[str, Note], ...]:
        """The notes, each with the name of the place where it stands."""
        return tuple((note.id or f"note-{i}", note) for i, note in enumerate(self.notes, 1))

    @property
    def anchored_parts(self) -> tuple[tuple[str, Part], ...]:
        """The sections, each with the name of the place where it stands."""
        return tuple((f"part-{i}", part) for i, part in enumerate(self.parts, 1))

    @property
    def commands(self) -> list[str]:
        """The commands and the Python lines that give this result again."""
        lines = [line for found in self.repeats or (self.result,) for line in (found.command, found.python)]
        return [with_sources(line) if line.startswith("modelkeep ") else line for line in dict.fromkeys(lines) if line]

    @property
    def labelled_commands(self) -> list[tuple[str, str]]:
        """The same lines as a page shows them."""
        return [("", line) for line in self.commands]

    def render(self) -> str:
        """The page as self-contained HTML."""
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup

        environment = Environment(
            loader=PackageLoader("modelkeep.report"),
            autoescape=True,  # class names and file names come from outside
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["inline"] = lambda svg: Markup(svg)  # `Picture.svg` draws and does no more
        seconds = command_seconds()
        return environment.get_template("page.html").render(
            page=self, provenance=self.result.provenance, seconds=seconds, date=date.today().isoformat()
        )

    def write(
        self, folder: str | Path, html: str, record: str, others: Mapping[str, str | bytes] | None = None
    ) -> tuple[Path, ...]:
        """Write the page, the result as JSON, the `others` and the pictures; each file whole or not at all.

        The folder's `index.html` links this page and those that were written there before.
        """
        pictures = {name: picture.png for name, picture in self.pictures.items()}
        files = {html: self.render(), record: self.result.to_json(), **(others or {}), **pictures}
        written = write_files(folder, files)
        write_index(Path(folder))
        return written


def write_files(folder: str | Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write each of the named files whole or not at all, and say where they are."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_write(folder / name, content) for name, content in files.items())
    except OSError as error:
        raise ModelKeepError(
            f"The report cannot be written to '{folder}': {error.strerror}. Name another folder with --out."
        ) from error


def _write(path: Path, content: str | bytes) -> Path:
    with replace_file(path) as unfinished:
        unfinished.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path
