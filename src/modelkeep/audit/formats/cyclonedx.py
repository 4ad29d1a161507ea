"""CycloneDX 1.6: a bill of materials of the model with its `modelCard`."""

from __future__ import annotations

import json
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import Finding
from modelkeep.audit.formats.format import Format
from modelkeep.core.method import declare
from modelkeep.report.measure import Measure


def write_cyclonedx(audit: Audit) -> str:
    """The bill: the model with what was measured, and the data sets that it was measured on."""
    p = audit.provenance
    identity = f"{p.model}/{p.data}/{p.seed}/{p.version}/{audit.date}"
    metadata: dict[str, Any] = {
        "tools": {"components": [{"type": "application", "name": "modelkeep", "version": p.version}]},
        "component": _model(audit),
    }
    if audit.date:
        metadata["timestamp"] = audit.date
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, identity)}",
        "version": 1,
        "metadata": metadata,
        "components": _data_sets(audit),
    }
    return json.dumps(bill, ensure_ascii=False, indent=2) + "\n"


def _model(audit: Audit) -> dict[str, Any]:
    p = audit.provenance
    facts = {"verdict": audit.verdict.line, "model-fingerprint": p.model, "data-fingerprint": p.data, "seed": p.seed}
    return {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": audit.model_name,
        "description": audit.description,
        "modelCard": {
            "bom-ref": "model-card",
            "modelParameters": {
                "task": "classification",
                "datasets": [{"ref": each["bom-ref"]} for each in _data_sets(audit)],
            },
            "quantitativeAnalysis": {
                "performanceMetrics": [_metric(each) for section in audit.sections for each in section.measures]
            },
            "considerations": {
                "technicalLimitations": [
                    f"{finding.status}: {finding.title}. {finding.measured}"
                    for finding in audit.findings
                    if finding.status != "pass"
                ]
            },
            "properties": [
                *(
                    {"name": f"modelkeep:{name}", "value": str(fact)}
                    for name, fact in facts.items()
                    if fact is not None
                ),
                *(_property(finding) for finding in audit.findings),
            ],
        },
    }


def _property(finding: Finding) -> dict[str, str]:
    ids = f"; {'; '.join(finding.taxonomy)}" if finding.taxonomy else ""
    return {"name": f"modelkeep:finding:{finding.id}", "value": f"{finding.status}; {finding.severity}{ids}"}


def _metric(measure: Measure) -> dict[str, Any]:
    share = measure.estimate
    return {
        "type": measure.name,
        "value": f"{share.value:.6g}",
        "confidenceInterval": {"lowerBound": f"{share.low:.6g}", "upperBound": f"{share.high:.6g}"},
    }


def _data_sets(audit: Audit) -> list[dict[str, Any]]:
    named = {"data": audit.data_name, "training-data": audit.train_name}
    told = {"data": "What the model was audited on.", "training-data": "Given to the audit as its training data."}
    return [
        {
            "type": "data",
            "bom-ref": ref,
            "name": name,
            "data": [{"type": "dataset", "name": name, "description": told[ref]}],
        }
        for ref, name in named.items()
        if name
    ]


CYCLONEDX = declare("report-format", "cyclonedx", does="A CycloneDX 1.6 bill of materials with a model card")(
    Format("model.cdx.json", write_cyclonedx)
)
