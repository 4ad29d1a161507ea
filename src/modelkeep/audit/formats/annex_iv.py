"""Annex IV: a draft of the technical documentation of the EU AI Act, whose gaps are marked as gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import Finding
from modelkeep.audit.formats.format import Format
from modelkeep.audit.formats.markdown import MEASURE_HEADER, code, made_by, measure_rows, plain, table
from modelkeep.audit.formats.model_card import gap
from modelkeep.core.method import declare

_SECURITY = ("robustness", "certification", "backdoor", "membership", "inversion", "weight-leakage", "extraction",
             "completion", "encryption", "hygiene")  # fmt: skip
_GROUPS = ("accuracy", "calibration", "bias", "shortcuts", "influence", "corruptions")


def write_annex_iv(audit: Audit) -> str:
    """The nine points of Annex IV of Regulation (EU) 2024/1689, each filled from the audit or marked as a gap."""
    head = (
        f"# Technical documentation of {plain(audit.model_name)}: a draft\n\n"
        "Along Annex IV of Regulation (EU) 2024/1689. It was filled from one audit of a model, a part of an AI "
        "system. It is no assessment of conformity. Each **GAP** is for the provider to fill in."
    )
    points = (_general, _development, _monitoring, _metrics, _risks, _changes, _standards, _declaration, _market)
    return "\n\n".join([head, *("\n\n".join(point(audit)) for point in points)]) + "\n"


def _general(audit: Audit) -> Iterator[str]:
    yield "## 1. General description of the AI system"
    yield f"The model: {plain(audit.model_name)}. {plain(audit.description)}"
    yield plain(f"Software that examined it: {made_by(audit)}")
    yield gap("intended purpose, provider, and version in its relation to earlier versions (1a)")
    yield gap("hardware and other software that it works with, and versions that are needed (1b, 1c)")
    yield gap("the forms in which it is placed on the market, and the hardware that it is to run on (1d, 1e)")
    yield gap("pictures of a product that contains it, its user interface, and instructions for use (1f, 1g, 1h)")


def _development(audit: Audit) -> Iterator[str]:
    yield "## 2. Elements of the AI system and its development"
    yield gap("methods and steps of the development, with tools and models of third parties (2a)")
    yield gap("design: logic, main choices and assumptions, what is optimised for (2b); architecture (2c)")
    if audit.train_name:
        yield f"Training data, as named to the audit: {plain(audit.train_name)}."
    yield gap("data sheets: origin, selection, labelling and cleaning of the training data (2d)")
    yield gap("human oversight (2e) and changes that are planned in advance (2f)")
    yield "### Validation and testing (2g)"
    yield plain(f"Data: {audit.data_name}. {made_by(audit)}")
    yield _measure_table(audit)
    if audit.command:
        yield code(audit.command)
    yield gap(
        "main characteristics of the test data, and test reports dated and signed by the responsible persons (2g)"
    )
    yield "### Cybersecurity (2h)"
    yield _finding_table(audit, _SECURITY) or gap("nothing about attacks was measured")
    yield gap("the measures that were put in place (2h)")


def _monitoring(audit: Audit) -> Iterator[str]:
    yield "## 3. Monitoring, functioning and control"
    yield "What the audit says of accuracy, of single classes and of what the model goes by:"
    yield _finding_table(audit, _GROUPS) or gap("nothing about accuracy was measured")
    yield gap("accuracy for the persons or groups on which the system is to be used, and the overall expected accuracy")
    yield gap("foreseeable unintended outcomes, human oversight, and specifications of input data")


def _metrics(audit: Audit) -> Iterator[str]:
    yield "## 4. Appropriateness of the performance metrics"
    names = [each.name for section in audit.sections for each in section.measures]
    if names:
        yield f"Measured, each with an interval: {plain('; '.join(names))}."
    yield gap("why these metrics suit this system")


def _risks(audit: Audit) -> Iterator[str]:
    yield "## 5. Risk management system (Article 9)"
    yield f"Verdict of the audit: {plain(audit.verdict.line)}"
    failed = [each for each in audit.findings if each.status == "fail"]
    if failed:
        rows = [[each.id, each.severity, each.meaning, each.remedy] for each in failed]
        yield table(("finding", "severity", "what it means", "what to do"), rows)
    skipped = [each.check for each in audit.findings if each.skipped]
    if skipped:
        yield gap(f"not looked at by the audit: {plain(', '.join(skipped))}")
    yield gap("the risk management system itself: risks to health, safety and fundamental rights")


def _changes(audit: Audit) -> Iterator[str]:
    yield "## 6. Changes through the lifecycle"
    yield plain(f"This describes the model with the fingerprint {audit.provenance.model}.")
    yield gap("relevant changes that the provider made")


def _standards(audit: Audit) -> Iterator[str]:
    yield "## 7. Harmonised standards"
    yield gap("the list of harmonised standards that are applied, or how Chapter III, Section 2 is met without them")
    ids = sorted({each for finding in audit.findings for each in finding.taxonomy})
    if ids:
        yield f"Taxonomies, which are no harmonised standards, that the findings name: {plain('; '.join(ids))}."


def _declaration(audit: Audit) -> Iterator[str]:
    yield "## 8. EU declaration of conformity"
    yield gap("a copy of the declaration of Article 47")


def _market(audit: Audit) -> Iterator[str]:
    yield "## 9. Post-market monitoring"
    yield gap("the system that evaluates performance on the market (Article 72), with its plan (Article 72(3))")


def _measure_table(audit: Audit) -> str:
    measures = [each for section in audit.sections for each in section.measures]
    return table(MEASURE_HEADER, measure_rows(measures)) if measures else gap("nothing was measured (2g)")


def _finding_table(audit: Audit, checks: Sequence[str]) -> str:
    found: list[Finding] = [each for each in audit.findings if each.check in checks]
    rows = [[each.status, each.severity, each.title, each.measured] for each in found]
    return table(("status", "severity", "finding", "measured"), rows) if rows else ""


ANNEX_IV = declare(
    "report-format", "annex-iv", does="A draft of the EU AI Act's technical documentation, with its gaps"
)(Format("annex-iv.md", write_annex_iv))
