"""Runs: the reports and audits that stand in the folder, whoever wrote them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelkeep.audit.audit import Audit
from modelkeep.core.errors import InputError, ModelKeepError
from modelkeep.report.index import NAME, read_page

_DEPTH = 4  # folders below the folder of runs
_MOST = 300  # pages that are listed
SERVED = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".md": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Run:
    """A page that a command wrote: where it is below the folder, its title, its verdict, when."""

    path: str
    title: str
    verdict: str
    level: str
    written: float
    audit: str = ""  # the run.json beside it, where it is the page of an audit


class Runs:
    """What stands in one folder. Audits are read once, and again where their file changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._pages: dict[Path, tuple[float, Run | None]] = {}
        self._audits: dict[Path, tuple[float, Audit]] = {}

    def pages(self) -> list[Run]:
        """The pages, the newest first."""
        with self._lock:
            found = [run for path in self._html() if (run := self._read(path)) is not None]
        return sorted(found, key=lambda run: (-run.written, run.path))[:_MOST]

    def below(self, out: str) -> list[Run]:
        """Those in the folder that a command wrote to."""
        if not out or not Path(out).resolve().is_relative_to(self._folder.resolve()):
            return []
        place = Path(out).resolve().relative_to(self._folder.resolve()).as_posix()
        return [run for run in self.pages() if place == "." or run.path.startswith(f"{place}/")]

    def audits(self) -> list[Run]:
        """Those of audits."""
        return [run for run in self.pages() if run.audit]

    def audit(self, path: str) -> Audit:
        """The audit in a run.json below the folder."""
        file = self.find(path)
        with self._lock:
            written = file.stat().st_mtime
            known = self._audits.get(file)
            if known is None or known[0] != written:
                known = self._audits[file] = written, Audit.from_json(file.read_bytes())
            return known[1]

    def find(self, path: str) -> Path:
        """The file below the folder; a path that leads out of it, or to another kind of file, is refused."""
        if "\0" in path:
            raise InputError("There is no such report.")
        file = (self._folder / path).resolve()
        hidden = any(part.startswith(".") for part in Path(path).parts)
        if hidden or not file.is_relative_to(self._folder.resolve()) or file.suffix not in SERVED or not file.is_file():
            raise InputError(f"There is no report '{path}' in '{self._folder}'.")
        return file

    def _html(self) -> Iterator[Path]:
        for depth in range(_DEPTH):
            for path in self._folder.glob("*/" * depth + "*.html"):
                if path.name != NAME and path.is_file() and path.resolve().is_relative_to(self._folder.resolve()):
                    yield path

    def _read(self, path: Path) -> Run | None:
        written = path.stat().st_mtime
        known = self._pages.get(path)
        if known is None or known[0] != written:
            known = self._pages[path] = written, self._describe(path, written)
        return known[1]

    def _describe(self, path: Path, written: float) -> Run | None:
        page = read_page(path, self._folder)
        if page is None:
            return None
        record = path.with_name("run.json")
        audit = record.relative_to(self._folder).as_posix() if path.stem == "report" and self._is_audit(record) else ""
        return Run(page.href, page.title, page.verdict, page.level, written, audit)

    def _is_audit(self, record: Path) -> bool:
        try:
            with record.open(encoding="utf-8") as file:
                return '"kind": "audit"' in file.read(200)
        except (OSError, UnicodeDecodeError, ModelKeepError):
            return False
