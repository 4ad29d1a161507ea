"""Small audits by hand, whose findings a test knows in advance."""

from __future__ import annotations

from typing import Any

from modelkeep import Estimate
from modelkeep.audit import Audit, Finding, Section
from modelkeep.audit.findings import Outcomes, Severity
from modelkeep.core.results import Provenance
from modelkeep.report.measure import Measure


def make_finding(id: str, severity: Severity, right: str | None = None, examples: str = "e", **more: Any) -> Finding:
    """A finding; with `right` it says how each example came out, and measures their share."""
    if right is not None:
        more.setdefault("value", Measure(id.partition(".")[0], Estimate.rate(right.count("1"), len(right))))
        more.setdefault("outcomes", Outcomes(examples, right))
    told = {"title": f"About {id}", "measured": "Measured.", "meaning": "It means this.", "remedy": "Do that."}
    return Finding(id=id, severity=severity, **{**told, **more})


def make_audit(*findings: Finding, measures: tuple[Measure, ...] = (), **more: Any) -> Audit:
    """An audit with one section per finding; the first has the measures."""
    sections = [
        Section(f"Section {i}", "Lead.", measures if i == 0 else (), (finding,), check=finding.check)
        for i, finding in enumerate(findings)
    ]
    told: dict[str, Any] = {
        "provenance": Provenance("m" * 64, "d" * 64, 0, 1.0, "1.0"),
        "model_name": "net.onnx",
        "data_name": "digits",
        "description": "10 classes.",
        "headline": measures[:4],
        "sections": tuple(sections),
        "date": "2026-11-18T12:00:00+00:00",
    }
    return Audit(**{**told, **more})
