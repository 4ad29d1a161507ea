"""The page of an audit: the verdict, its findings, ranked, then check by check."""

from __future__ import annotations

from modelkeep.audit.audit import Audit
from modelkeep.audit.comparison import Comparison
from modelkeep.audit.findings import Finding, Section
from modelkeep.report.measure import percent
from modelkeep.report.page import Card, Note, Page, Part, Table


def audit_page(audit: Audit, comparison: Comparison | None = None) -> Page:
    """The page; `audit_page(found).write(folder, "report.html", "run.json")` writes it."""
    verdict = audit.verdict
    return Page(
        result=audit,
        title=f"{audit.model_name} on {audit.data_name}",
        verdict=verdict.line,
        lead=audit.description,
        cards=tuple(Card.of_share(measure.name, measure.estimate) for measure in audit.headline),
        notes_title="What was found",
        notes=tuple(_note(finding) for finding in audit.findings if not finding.skipped),
        parts=(
            *(() if comparison is None else (_compared(comparison),)),
            *(_part(section) for section in audit.sections if not all(f.skipped for f in section.findings or ())
              or not section.findings),
            *_left_out(audit),
            *_times(audit),
        ),
    )  # fmt: skip


def _note(finding: Finding) -> Note:
    return Note(
        finding.severity,
        finding.severity,
        finding.title,
        f"{finding.measured} {finding.meaning}",
        finding.remedy,
        finding.taxonomy,
        finding.id,
    )


def _part(section: Section) -> Part:
    return Part(
        section.title,
        section.lead,
        tables=(_measures(section),) if section.measures else (),
        pictures=section.pictures,
        explanations=section.explanations,
    )


def _measures(section: Section) -> Table:
    rows = []
    for measure in section.measures:
        share = measure.estimate
        interval = f"{percent(share.low)} to {percent(share.high)}"
        rows.append([measure.name, percent(share.value), interval, str(share.n)])
    return Table(rows, header=("measure", "value", "95 % interval", "examples"))


def _compared(comparison: Comparison) -> Part:
    rows = [[each.change, each.title, each.why] for each in comparison.findings]
    lead = " ".join([comparison.verdict, *comparison.notes])
    return Part("Since the baseline", lead, tables=(Table(rows, header=("change", "finding", "judged by")),))


def _left_out(audit: Audit) -> tuple[Part, ...]:
    rows = [[f.id.partition(".")[0], f.measured, f.remedy] for f in audit.findings if f.skipped]
    if not rows:
        return ()
    return (Part("What was not run", tables=(Table(rows, header=("check", "why", "what would run it")),)),)


def _times(audit: Audit) -> tuple[Part, ...]:
    if not audit.times:
        return ()
    rows = [[each.check, each.depth or "–", f"{each.estimated:.1f} s", f"{each.took:.1f} s"] for each in audit.times]
    header = ("check", "depth", "estimated", "took")
    return (Part("How long it took", tables=(Table(rows, header=header, summary="Check by check"),)),)
