"""The bill of materials by CycloneDX's own strict validator."""

from __future__ import annotations

import json

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from modelkeep.audit import Audit
from modelkeep.audit.formats.cyclonedx import write_cyclonedx

VALIDATOR = JsonStrictValidator(SchemaVersion.V1_6)


def test_it_is_valid(written: Audit) -> None:
    assert VALIDATOR.validate_str(write_cyclonedx(written)) is None


def test_the_validator_refuses_what_is_not_in_the_standard(audits: dict[str, Audit]) -> None:
    bill = json.loads(write_cyclonedx(audits["hostile"]))
    bill["metadata"]["component"]["modelCard"]["accuracy"] = 1
    assert VALIDATOR.validate_str(json.dumps(bill)) is not None


def test_it_says_what_was_measured(audits: dict[str, Audit]) -> None:
    audit = audits["today"]
    model = json.loads(write_cyclonedx(audit))["metadata"]["component"]
    assert model["type"] == "machine-learning-model"
    metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    share = audit.headline[0].estimate
    assert metrics[0] == {
        "type": "accuracy",
        "value": f"{share.value:.6g}",
        "confidenceInterval": {"lowerBound": f"{share.low:.6g}", "upperBound": f"{share.high:.6g}"},
    }
    assert write_cyclonedx(audit) == write_cyclonedx(audit)
