"""The page of an audit: its findings, ranked, then check by check."""

from __future__ import annotations

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import Section
from modelkeep.report.measure import percent
from modelkeep.report.page import Card, Note, Page, Part, Table


def audit_page(audit: Audit) -> Page:
    """The page; `audit_page(found).write(folder, "report.html", "run.json")` writes it."""
    return Page(
        result=audit,
        title=f"{audit.model_name} on {audit.data_name}",
        lead=audit.description,
        cards=tuple(Card.of_share(measure.name, measure.estimate) for measure in audit.headline),
        notes_title="What was found",
        notes=tuple(
            Note(f.severity, f.severity, f.title, f"{f.measured} {f.meaning}", f.remedy, f.taxonomy, f.id)
            for f in audit.findings
        ),
        parts=tuple(
            Part(
                section.title,
                section.lead,
                tables=(_measures(section),) if section.measures else (),
                pictures=section.pictures,
                explanations=section.explanations,
            )
            for section in audit.sections
        ),
    )


def _measures(section: Section) -> Table:
    rows = []
    for measure in section.measures:
        share = measure.estimate
        interval = f"{percent(share.low)} to {percent(share.high)}"
        rows.append([measure.name, percent(share.value), interval, str(share.n)])
    return Table(rows, header=("measure", "value", "95 % interval", "examples"))
