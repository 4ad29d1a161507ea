"""The pages that people read, each one HTML file that opens offline, and the JSON files for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modelkeep.audit.audit import Audit
from modelkeep.audit.bias import Bias
from modelkeep.audit.explanations import Explanations
from modelkeep.audit.findings import percent
from modelkeep.errors import ModelKeepError
from modelkeep.files import replacing


def render(found: Audit | Explanations) -> str:
    """The whole report as one self-contained HTML page."""
    if isinstance(found, Audit):
        return _page("report.html", audit=found, provenance=found.provenance)
    return _page("explain.html", explanations=found, provenance=found.provenance)


def write(audit: Audit, folder: str | Path) -> tuple[Path, Path]:
    """Write `report.html` and `run.json` to `folder`; each replaces an older one in one motion."""
    page, record = write_files(folder, {"report.html": render(audit), "run.json": audit.to_json()})
    return page, record


def write_explanations(found: Explanations, folder: str | Path) -> tuple[Path, ...]:
    """Write `explain.html`, `explain.json` and a PNG per picture to `folder`; each replaces an older one."""
    return write_files(folder, {"explain.html": render(found), "explain.json": found.to_json(), **found.pictures()})


def write_bias(found: Bias, folder: str | Path) -> tuple[Path, ...]:
    """Write `bias.html`, `bias.json` and a PNG per picture to `folder`; each replaces an older one."""
    pictures = found.pictures()
    page = _page("bias.html", bias=found, pictures=pictures, provenance=found.provenance)
    drawn = {name: picture.png for name, picture in pictures.items()}
    return write_files(folder, {"bias.html": page, "bias.json": found.to_json(), **drawn})


def write_files(folder: str | Path, files: dict[str, str | bytes]) -> tuple[Path, ...]:
    """Write each of the named files whole or not at all, and say where they are."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_replace(folder / name, content) for name, content in files.items())
    except OSError as error:
        raise ModelKeepError(
            f"The report cannot be written to '{folder}': {error.strerror}. Name another folder with --out."
        ) from error


def _page(template: str, **values: Any) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("modelkeep.audit"),
        autoescape=True,  # class names and file names come from outside
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment.get_template(template).render(values)


def _replace(path: Path, content: str | bytes) -> Path:
    with replacing(path) as unfinished:
        unfinished.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path
