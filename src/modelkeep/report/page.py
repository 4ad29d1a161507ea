"""The pages that people read: one look for all of them, each one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from modelkeep.core.errors import ModelKeepError
from modelkeep.core.files import replace_file

if TYPE_CHECKING:
    from jinja2 import Environment


def environment() -> Environment:
    """The templates of all pages; each extends `base.html`: its look, its pieces and the footer."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("modelkeep.report"),
        autoescape=True,  # class names and file names come from outside
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_files(folder: str | Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write each of the named files whole or not at all, and say where they are."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_replace(folder / name, content) for name, content in files.items())
    except OSError as error:
        raise ModelKeepError(
            f"The report cannot be written to '{folder}': {error.strerror}. Name another folder with --out."
        ) from error


def _replace(path: Path, content: str | bytes) -> Path:
    with replace_file(path) as unfinished:
        unfinished.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path
