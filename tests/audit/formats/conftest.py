"""Audits for the formats: one stored by version 0.1.0, one of today, and one with every status and hostile names."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from audit.audits import make_audit, make_finding
from modelkeep import Data, Estimate, Model
from modelkeep.audit import Audit, Settings, audit
from modelkeep.audit.policy import Policy
from modelkeep.report.measure import Measure
from modelkeep.report.taxonomy import classify

STORED = Path(__file__).parents[2] / "stored" / "results" / "audit.json"
HOSTILE = 'a|b <script>"x"</script> ``` --- \x00\x0b\n# heading {y} é'


def make_hostile() -> Audit:
    """Every status, an ignored finding, and names that try to break out of each format."""
    id = "robustness.adversarial-examples"
    found = make_audit(
        make_finding(
            id, "high", "1" * 10 + "0" * 30, taxonomy=classify(id), title=HOSTILE, queries=7, command="run `x`"
        ),
        make_finding("accuracy.weak-class", "medium", measured=HOSTILE),
        make_finding("shortcuts.one-place-decides", "low"),
        make_finding("bias.unclear", "unclear"),
        make_finding("extraction.not-run", "unclear", skipped=True),
        make_finding("influence.varying-features", "good"),
        measures=(Measure("accuracy", Estimate.rate(9, 10)), Measure(HOSTILE, Estimate.rate(3, 10))),
        model_name=HOSTILE,
        data_name=HOSTILE,
        train_name="train.csv",
    )
    rule = {"shortcuts": {"reason": HOSTILE, "until": date(2100, 1, 1)}}
    return Policy.from_values({"ignore": rule}).apply(found).audit


@pytest.fixture(scope="session")
def audits(trained_cnn: Model, digits: tuple[Data, Data]) -> dict[str, Audit]:
    settings = Settings(examples=20, steps=2, checks=("accuracy", "robustness", "membership"))
    return {
        "stored": Audit.from_json(STORED.read_bytes()),
        "today": audit(trained_cnn, digits[1], settings, seed=0),
        "hostile": make_hostile(),
        "empty": make_audit(),
    }


@pytest.fixture(params=["stored", "today", "hostile", "empty"])
def written(request: pytest.FixtureRequest, audits: dict[str, Audit]) -> Audit:
    """One audit after the other."""
    return audits[request.param]
