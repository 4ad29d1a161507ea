"""SARIF by the schema of OASIS, and what code scanning reads of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from modelkeep.audit import Audit
from modelkeep.audit.formats.sarif import write_sarif

SCHEMA = Path(__file__).parent / "schemas" / "sarif-2.1.0-rtm.5.json"


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_it_is_valid(written: Audit, validator: Any) -> None:
    validator.validate(json.loads(write_sarif(written)))


def test_the_schema_refuses_what_is_not_sarif(audits: dict[str, Audit], validator: Any) -> None:
    log = json.loads(write_sarif(audits["hostile"]))
    log["runs"][0]["results"][0]["kind"] = "failed"
    assert not validator.is_valid(log)


def test_kinds_levels_and_scores(audits: dict[str, Audit]) -> None:
    run = json.loads(write_sarif(audits["hostile"]))["runs"][0]
    results = {each["ruleId"]: each for each in run["results"]}
    rules = run["tool"]["driver"]["rules"]
    assert {id: (each["kind"], each["level"]) for id, each in results.items()} == {
        "robustness.adversarial-examples": ("fail", "error"),
        "accuracy.weak-class": ("fail", "warning"),
        "shortcuts.one-place-decides": ("fail", "note"),
        "bias.unclear": ("open", "none"),
        "extraction.not-run": ("notApplicable", "none"),
        "influence.varying-features": ("pass", "none"),
    }
    for result in results.values():
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        # SARIF 3.27.10: a level other than "none" only with the kind "fail".
        assert (result["level"] == "none") == (result["kind"] != "fail")
    scores = {each["id"]: float(each["properties"]["security-severity"]) for each in rules}
    assert 7.0 <= scores["robustness.adversarial-examples"] < 9.0
    assert 4.0 <= scores["accuracy.weak-class"] < 7.0
    assert [id for id, each in results.items() if "suppressions" in each] == ["shortcuts.one-place-decides"]


def test_each_taxon_is_one_of_its_taxonomy(written: Audit) -> None:
    run = json.loads(write_sarif(written))["runs"][0]
    known = {each["name"]: {taxon["id"] for taxon in each["taxa"]} for each in run.get("taxonomies", [])}
    for result in run["results"]:
        for taxon in result.get("taxa", []):
            assert taxon["id"] in known[taxon["toolComponent"]["name"]]
