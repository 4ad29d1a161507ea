"""The JSON Schema of run.json, by another project's validator, on real files."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from modelkeep import Data, Model
from modelkeep.audit import Audit, Settings, audit
from modelkeep.audit.schema import audit_schema

DOCS = Path(__file__).parents[2] / "docs"
STORED = Path(__file__).parents[1] / "stored" / "results" / "audit.json"


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(audit_schema())


def test_the_documentation_has_it() -> None:
    stored = json.loads((DOCS / "run.schema.json").read_text(encoding="utf-8"))
    assert stored == audit_schema(), "run: modelkeep report --schema > docs/run.schema.json"


def test_a_new_audit_is_valid(trained_cnn: Model, digits: tuple[Data, Data]) -> None:
    found = audit(trained_cnn, digits[1], Settings(examples=20, steps=2, checks=("accuracy", "influence")), seed=0)
    validator = jsonschema.Draft202012Validator(audit_schema())
    body = json.loads(found.to_json())
    validator.validate(body)
    assert not validator.is_valid({**body, "unknown": 1})
    assert not validator.is_valid({**body, "schema": 1})
    assert not validator.is_valid({key: value for key, value in body.items() if key != "sections"})


def test_an_audit_of_version_1_is_read_and_written_as_version_2() -> None:
    text = STORED.read_text(encoding="utf-8")
    assert json.loads(text)["schema"] == 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(text), audit_schema())
    jsonschema.validate(json.loads(Audit.from_json(text).to_json()), audit_schema())
