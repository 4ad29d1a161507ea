"""JUnit: findings as test cases, for the test reports of CI servers."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import Finding, Section
from modelkeep.audit.formats.format import Format
from modelkeep.core.method import declare

# What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(audit: Audit) -> str:
    """A suite per section and a case per finding. What is open, ignored or not run is skipped, never passed."""
    suites = ET.Element("testsuites", name=_clean(f"modelkeep audit of {audit.model_name}"))
    took = {each.check: each.took for each in audit.times}
    for section in audit.sections:
        suites.append(_suite(section, audit, took.get(section.check, 0.0)))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _suite(section: Section, audit: Audit, seconds: float) -> ET.Element:
    cases = [_case(finding) for finding in section.findings]
    suite = ET.Element(
        "testsuite",
        name=_clean(section.title),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors="0",
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=f"{seconds:.3f}",
    )
    if audit.date:
        suite.set("timestamp", audit.date.partition("+")[0])
    suite.extend(cases)
    return suite


def _case(finding: Finding) -> ET.Element:
    case = ET.Element("testcase", classname=_clean(f"modelkeep.{finding.check}"), name=_clean(finding.id))
    if finding.ignored and finding.ruled is not None:
        ET.SubElement(case, "skipped", message=_clean(finding.ruled.rule))
    elif finding.status == "fail":
        failure = ET.SubElement(case, "failure", type=finding.severity, message=_clean(finding.title))
        lines = [finding.measured, finding.meaning, finding.remedy, finding.command, finding.fix]
        failure.text = _clean("\n".join(filter(None, [*lines, *finding.taxonomy])))
    elif finding.status != "pass":
        ET.SubElement(case, "skipped", message=_clean(f"{finding.status}: {finding.title}. {finding.measured}"))
    return case


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


JUNIT = declare("report-format", "junit", does="Findings as test cases, for CI servers")(
    Format("junit.xml", write_junit)
)
