"""The audit's page: one HTML file for people, one JSON file for machines."""

from __future__ import annotations

from pathlib import Path

from modelkeep.audit.audit import Audit
from modelkeep.report.page import write_files
from modelkeep.report.writer import render


def render_audit(audit: Audit) -> str:
    """The whole report as one self-contained HTML page."""
    return render("report.html", audit=audit, provenance=audit.provenance)


def write_audit(audit: Audit, folder: str | Path) -> tuple[Path, Path]:
    """Write `report.html` and `run.json` to `folder`; each replaces an older one in one motion."""
    page, record = write_files(folder, {"report.html": render_audit(audit), "run.json": audit.to_json()})
    return page, record
