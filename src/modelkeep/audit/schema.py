"""Schema: the JSON Schema of run.json, made from the audit's own types."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from modelkeep.audit.audit import Audit


def audit_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `Audit.to_json` writes."""
    schema = TypeAdapter(Audit).json_schema(mode="validation")
    head = {"kind": {"const": Audit.kind()}, "schema": {"const": Audit.schema}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": f"ModelKeep's run.json, schema {Audit.schema}",
        "properties": {**head, **schema["properties"]},
        "required": ["kind", "schema", *schema["required"]],
    }
