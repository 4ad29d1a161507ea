"""The audit says where members are found, by what attacker, and never that they cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modelkeep import Data, Model, Result
from modelkeep.audit import Settings, audit
from modelkeep.audit.audit import plan_audit
from modelkeep.audit.membership import CheckMembership
from modelkeep.training import cross_entropy, fit
from privacy.little_world import RECIPE, gaussian_records, network


@pytest.fixture(scope="module")
def leaky() -> tuple[Model, Data]:
    """A network that learned a few noisy records by heart."""
    members, model = gaussian_records(150, seed=0), network()
    fit(model, members, cross_entropy, RECIPE, seed=0)
    return model, members


def test_a_leak_is_named_with_its_interval_and_the_attackers_access(leaky: tuple[Model, Data]) -> None:
    model, members = leaky
    section = CheckMembership(train=members)(model, gaussian_records(400, seed=1), seed=0)
    (finding,) = section.findings
    assert finding.id == "membership.leaks"
    assert finding.severity in ("medium", "high")
    assert "the strongest of 3" in finding.measured
    assert "The attacker sees probabilities" in finding.measured
    assert "nothing can be said at 0.1 % and 1.0 % false accusations" in finding.measured
    assert "modelkeep privacy MODEL --members TRAIN --non-members DATA --seed 0" in finding.remedy
    assert section.measures[0].estimate.low > 0.5
    assert section.pictures[0].uri.startswith("data:image/")


def test_strangers_for_members_show_no_leak_and_no_safety() -> None:
    model = network()
    few, many = gaussian_records(60, seed=2), gaussian_records(4000, seed=3)
    (unclear,) = CheckMembership(train=few)(model, gaussian_records(60, seed=4), seed=0).findings
    assert (unclear.id, unclear.severity) == ("membership.unclear", "unclear")
    (known,) = CheckMembership(train=many)(model, gaussian_records(8000, seed=5), seed=0).findings
    assert (known.id, known.severity) == ("membership.not-found", "good")
    assert "no proof" in known.meaning


def test_without_members_or_with_few_others_it_says_why_it_cannot_run() -> None:
    model, others = network(), gaussian_records(10, seed=7)
    assert "--train TRAIN" in CheckMembership().obstacle(model, others)
    few = CheckMembership(train=gaussian_records(30, seed=6)).obstacle(model, others)
    assert few == "It needs 20 or more records that the model has not seen, and has 10."
    assert CheckMembership(train=others).obstacle(model, gaussian_records(20, seed=7)) == ""


def test_the_audit_runs_it_where_the_training_data_are_given(leaky: tuple[Model, Data]) -> None:
    model, members = leaky
    others, settings = gaussian_records(400, seed=1), Settings(checks=("accuracy", "membership"))
    found = audit(model, others, settings, train=members, seed=0)
    assert "membership.leaks" in {finding.id for finding in found.findings}
    assert found.python == "audit(model, data, Settings(checks=('accuracy', 'membership')), train=train, seed=0)"
    told = replace(found, provenance=replace(found.provenance, options="--steps 3"))
    assert told.command == "modelkeep audit MODEL --data DATA --train TRAIN --steps 3 --seed 0"
    assert Result.from_json(found.to_json()).to_json() == found.to_json()
    without = audit(model, others, Settings(checks=("membership",)), seed=0)
    assert [(finding.id, finding.status) for finding in without.findings] == [("membership.not-run", "not run")]


def test_its_cost_counts_every_record_that_an_attack_asks_for() -> None:
    check = CheckMembership(train=gaussian_records(30, seed=0))
    assert check.cost(network(), gaussian_records(50, seed=1)).passes == 3 * 80


def test_the_training_data_reach_the_check() -> None:
    train, others = gaussian_records(40, seed=0), gaussian_records(40, seed=1)
    settings = Settings(checks=("accuracy", "membership"))
    planned = {step.name: step.check for step in plan_audit(network(), others, settings, train=train).steps}
    assert planned["membership"] == CheckMembership(train=train)
    assert [step.name for step in plan_audit(network(), others, settings).left_out] == ["membership"]
