"""The report: one HTML file that opens offline, and one JSON file for machines."""

from __future__ import annotations

from pathlib import Path

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import percent
from modelkeep.errors import ModelKeepError
from modelkeep.files import replacing


def render(audit: Audit) -> str:
    """The whole report as one self-contained HTML page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("modelkeep.audit"),
        autoescape=True,  # class names and file names come from outside
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment.get_template("report.html").render(audit=audit)


def write(audit: Audit, folder: str | Path) -> tuple[Path, Path]:
    """Write `report.html` and `run.json` to `folder`; each replaces an older one in one motion."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _replace(folder / "report.html", render(audit)), _replace(folder / "run.json", audit.to_json())
    except OSError as error:
        raise ModelKeepError(
            f"The report cannot be written to '{folder}': {error.strerror}. Name another folder with --out."
        ) from error


def _replace(path: Path, text: str) -> Path:
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path
