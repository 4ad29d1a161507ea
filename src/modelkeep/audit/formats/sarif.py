"""SARIF 2.1.0: findings as results of static analysis, for code scanning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import Finding, Severity, Status
from modelkeep.audit.formats.format import Format
from modelkeep.core.method import declare
from modelkeep.report.taxonomy import name_id, read_taxonomy, split_id

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
KINDS: Mapping[Status, str] = {"fail": "fail", "pass": "pass", "inconclusive": "open", "not run": "notApplicable"}
LEVELS: Mapping[Severity, str] = {
    "high": "error",
    "medium": "warning",
    "low": "note",
    "unclear": "none",
    "good": "none",
}
# Inside the ranges in which code scanning calls a rule high (7.0 to 8.9), medium (4.0 to 6.9) and low (0.1 to 3.9).
_SCORES: Mapping[Severity, str] = {"high": "8.0", "medium": "5.5", "low": "2.0", "unclear": "0.0", "good": "0.0"}


def write_sarif(audit: Audit) -> str:
    """One run with a rule per finding's id, and the public taxonomies that its findings name."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(audit)]}
    return json.dumps(log, ensure_ascii=False, indent=2) + "\n"


def _run(audit: Audit) -> dict[str, Any]:
    findings = audit.findings
    rules = list({finding.id: _rule(finding) for finding in reversed(findings)}.values())
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    taxonomies = _taxonomies(findings)
    uri = quote(audit.sources.model or audit.model_name)
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "ModelKeep",
                "version": audit.provenance.version,
                "informationUri": "https://modelkeep.readthedocs.io",
                "rules": rules,
                "supportedTaxonomies": [{"name": each["name"]} for each in taxonomies],
            }
        },
        "automationDetails": {"id": f"modelkeep/audit/{quote(audit.model_name)}/"},
        "invocations": [_invocation(audit)],
        "results": [_result(finding, places[finding.id], uri) for finding in findings],
    }
    if taxonomies:
        run["taxonomies"] = taxonomies
    return run


def _invocation(audit: Audit) -> dict[str, Any]:
    told: dict[str, Any] = {"executionSuccessful": not audit.stopped}
    if audit.command:
        told["commandLine"] = audit.command
    if audit.date:
        told["endTimeUtc"] = audit.date.replace("+00:00", "Z")
    return told


def _rule(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "shortDescription": {"text": finding.title},
        "fullDescription": {"text": finding.meaning},
        "help": {"text": finding.remedy},
        "defaultConfiguration": {"level": LEVELS[finding.severity]},
        "properties": {"tags": ["security", finding.check], "security-severity": _SCORES[finding.severity]},
    }


def _result(finding: Finding, rule: int, uri: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "kind": KINDS[finding.status],
        "level": LEVELS[finding.severity],
        "message": {"text": f"{finding.title}. {finding.measured} {finding.meaning}"},
        # A model's file has no lines, but code scanning shows no result without one.
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}],
        "partialFingerprints": {"modelkeepFinding/v1": sha256(f"{uri}\n{finding.id}".encode()).hexdigest()},
        "properties": _properties(finding),
    }
    taxa = [split_id(each) for each in finding.taxonomy]
    if taxa:
        told["taxa"] = [{"id": id, "toolComponent": {"name": name}} for name, id in taxa]
    if finding.ignored and finding.ruled is not None:
        told["suppressions"] = [{"kind": "external", "status": "accepted", "justification": finding.ruled.rule}]
    return told


def _properties(finding: Finding) -> dict[str, Any]:
    told: dict[str, Any] = {"severity": finding.severity, "remedy": finding.remedy}
    if finding.value is not None:
        share = finding.value.estimate
        told["value"] = {"name": finding.value.name, "value": share.value, "low": share.low, "high": share.high}
        told["examples"] = share.n
    more = {"access": finding.access, "command": finding.command, "fix": finding.fix, "notLookedAt": finding.partial}
    told |= {name: text for name, text in more.items() if text}
    return told if finding.queries is None else {**told, "queries": finding.queries}


def _taxonomies(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    versions = {each["name"]: each["version"] for each in read_taxonomy()["taxonomies"].values()}
    used: dict[str, set[str]] = {}
    for finding in findings:
        for name, id in map(split_id, finding.taxonomy):
            used.setdefault(name, set()).add(id)
    return [
        {"name": name, "version": versions.get(name, "unknown"), "taxa": [_taxon(name, id) for id in sorted(ids)]}
        for name, ids in used.items()
    ]


def _taxon(name: str, id: str) -> dict[str, Any]:
    called = name_id(f"{name} {id}")
    return {"id": id, "name": called} if called else {"id": id}


SARIF = declare("report-format", "sarif", does="SARIF 2.1.0, for code scanning")(Format("report.sarif", write_sarif))
