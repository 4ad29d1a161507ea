"""Format: how an audit is written for other people's programs, declared in the family "report-format"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelkeep.audit.audit import Audit
from modelkeep.core.registry import find
from modelkeep.report.page import write_files

FAMILY = "report-format"


@dataclass(frozen=True)
class Format:
    """The name of the file, and the function that makes its content."""

    file: str
    write: Callable[[Audit], str]


def find_format(name: str) -> Format:
    """The format of that name; an unknown name is an error that names the nearest."""
    found = find(FAMILY, name).load()
    assert isinstance(found, Format)
    return found


def write_formats(audit: Audit, folder: str | Path, names: Sequence[str]) -> tuple[Path, ...]:
    """Write the audit to the folder in each of the formats, and say where the files are."""
    chosen = [find_format(name) for name in names]
    return write_files(folder, {each.file: each.write(audit) for each in chosen})
