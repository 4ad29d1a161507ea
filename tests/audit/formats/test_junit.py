"""JUnit by the schema of Jenkins, with nothing green that did not pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import xmlschema

from modelkeep.audit import Audit
from modelkeep.audit.formats.junit import write_junit


@pytest.fixture(scope="module")
def schema() -> Any:
    return xmlschema.XMLSchema(Path(__file__).parent / "schemas" / "junit-10.xsd")


def test_it_is_valid(written: Audit, schema: Any) -> None:
    schema.validate(write_junit(written))


def test_the_schema_refuses_what_is_not_junit(schema: Any) -> None:
    assert not schema.is_valid("<testsuites><testsuite><case/></testsuite></testsuites>")


def test_only_what_passed_is_green(audits: dict[str, Audit]) -> None:
    root = ET.fromstring(write_junit(audits["hostile"]))
    states = {case.attrib["name"]: [child.tag for child in case] for case in root.iter("testcase")}
    assert states == {
        "robustness.adversarial-examples": ["failure"],
        "accuracy.weak-class": ["failure"],
        "shortcuts.one-place-decides": ["skipped"],
        "bias.unclear": ["skipped"],
        "extraction.not-run": ["skipped"],
        "influence.varying-features": [],
    }
    for suite in root.iter("testsuite"):
        cases = suite.findall("testcase")
        counted = [len(cases), len(suite.findall("testcase/failure")), len(suite.findall("testcase/skipped"))]
        assert [int(suite.attrib[name]) for name in ("tests", "failures", "skipped")] == counted
