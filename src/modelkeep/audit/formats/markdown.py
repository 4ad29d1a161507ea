"""Markdown: a comment for a pull request, and what other documents in Markdown share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import Finding
from modelkeep.audit.formats.format import Format
from modelkeep.core.method import declare
from modelkeep.report.measure import Measure, percent

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line: class names and file names come from outside.

    >>> plain("a|b <script>")
    'a\\\\|b \\\\<script\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are text."""
    lines = [header, ["---"] * len(header), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measure_rows(measures: Sequence[Measure]) -> list[list[str]]:
    """Each measure with its interval and the number of examples."""
    found = [(each.name, each.estimate) for each in measures]
    return [[name, percent(s.value), f"{percent(s.low)} to {percent(s.high)}", str(s.n)] for name, s in found]


MEASURE_HEADER = ("measure", "value", "95 % interval", "examples")


def code(text: str) -> str:
    """A block of code that no content can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def write_markdown(audit: Audit) -> str:
    """The verdict, the findings as a table and each in detail, the measures, and how to repeat it."""
    return "\n\n".join(_parts(audit)) + "\n"


def _parts(audit: Audit) -> Iterator[str]:
    findings = audit.findings
    yield f"# Audit of {plain(audit.model_name)} on {plain(audit.data_name)}"
    yield f"**{plain(audit.verdict.line)}**"
    yield plain(audit.description)
    shown = [each for each in findings if not each.skipped]
    if shown:
        yield "## Findings"
        yield table(
            ("status", "severity", "finding", "measured"),
            [[_status(each), each.severity, each.title, each.measured] for each in shown],
        )
        yield "## In detail"
        for finding in shown:
            yield from _detail(finding)
    skipped = [each for each in findings if each.skipped]
    if skipped:
        yield "## Not run"
        yield table(("check", "why", "what to do"), [[each.check, each.measured, each.remedy] for each in skipped])
    measures = [each for section in audit.sections for each in section.measures]
    if measures:
        yield "## Measures"
        yield table(MEASURE_HEADER, measure_rows(measures))
    yield "## Made by"
    yield plain(made_by(audit))
    lines = [line for line in (audit.command, audit.python) if line]
    if lines:
        yield code("\n".join(lines))


def made_by(audit: Audit) -> str:
    """Version, date, seed and fingerprints, in a sentence."""
    p = audit.provenance
    when = f" on {audit.date}" if audit.date else ""
    return f"modelkeep {p.version}{when}, seed {p.seed}; model {p.model}, data {p.data}."


def _status(finding: Finding) -> str:
    return "ignored" if finding.ignored else finding.status


def _detail(finding: Finding) -> Iterator[str]:
    yield f"### {plain(finding.title)}"
    yield f"`{finding.id}`: {_status(finding)}, severity {finding.severity}"
    yield f"{plain(finding.measured)} {plain(finding.meaning)}"
    if finding.partial:
        yield f"Not looked at: {plain(finding.partial)}"
    if finding.ruled is not None:
        yield plain(finding.ruled.rule)
    yield f"What to do: {plain(finding.remedy)}"
    lines = [line for line in (finding.command, finding.python, finding.fix) if line]
    if lines:
        yield code("\n".join(lines))
    if finding.taxonomy:
        yield plain(" · ".join(finding.taxonomy))


MARKDOWN = declare("report-format", "markdown", does="A comment for a pull request")(
    Format("report.md", write_markdown)
)
