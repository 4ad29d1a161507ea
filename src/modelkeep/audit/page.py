"""The page of an audit: the verdict, its findings, ranked, then check by check."""

from __future__ import annotations

from modelkeep.audit.audit import Audit
from modelkeep.audit.comparison import Comparison
from modelkeep.audit.findings import Finding, Section
from modelkeep.report.measure import percent
from modelkeep.report.page import Card, Note, Page, Part, Table

_SAYS = {
    "labels": "the answers",
    "scores": "the probabilities of all classes",
    "weights": "the network itself",
}


def audit_page(audit: Audit, comparison: Comparison | None = None) -> Page:
    """The page; `audit_page(found).write(folder, "report.html", "run.json")` writes it."""
    verdict = audit.verdict
    return Page(
        result=audit,
        title=f"{audit.model_name} on {audit.data_name}",
        verdict=verdict.line,
        verdict_level=verdict.level,
        facts=_facts(audit),
        lead=audit.description,
        cards=tuple(Card.of_share(measure.name, measure.estimate) for measure in audit.headline),
        notes_title="What was found",
        notes=tuple(_note(finding) for finding in audit.findings if not finding.skipped),
        parts=(
            *(() if comparison is None else (_compared(comparison),)),
            *(_part(section) for section in audit.sections if not _is_skipped(section)),
            *_left_out(audit),
            *_times(audit),
        ),
    )


def _is_skipped(section: Section) -> bool:
    return bool(section.findings) and all(finding.skipped for finding in section.findings)


def _facts(audit: Audit) -> tuple[tuple[str, str], ...]:
    """What the page is about."""
    skipped = [finding.id.partition(".")[0] for finding in audit.findings if finding.skipped]
    facts = {
        "date": audit.date[:10],
        "model": audit.sources.model or audit.model_name,
        "data": audit.sources.data or audit.data_name,
        "training data": audit.sources.train or audit.train_name or "not given",
        "not run": ", ".join(skipped) or "nothing was left out",
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _note(finding: Finding) -> Note:
    facts = []
    if finding.value is not None:
        share = finding.value.estimate
        told = f"{percent(share.value)} ({percent(share.low)} to {percent(share.high)}; {share.n} examples)"
        facts.append((finding.value.name, told))
    if finding.access:
        facts.append(("who measures it sees", _SAYS.get(finding.access, finding.access)))
    if finding.queries is not None:
        facts.append(("examples asked", f"{finding.queries:,}"))
    if finding.partial:
        facts.append(("not looked at", finding.partial))
    commands = [("measure it again", finding.command), ("in Python", finding.python), ("mend it", finding.fix)]
    return Note(
        finding.severity,
        finding.severity,
        finding.title,
        f"{finding.measured} {finding.meaning}",
        finding.remedy,
        finding.taxonomy,
        finding.id,
        facts=tuple(facts),
        commands=tuple((name, line) for name, line in commands if line),
        pictures=finding.evidence,
        status=finding.status,
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
