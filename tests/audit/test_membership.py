"""The audit says where members are found, by what attacker, and never that they cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modelkeep import Data, Model, Result
from modelkeep.audit import Settings, audit
from modelkeep.audit.audit import give_training_data
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
    assert section.pictures[0].uri.startswith("data:image/png")


def test_strangers_for_members_show_no_leak_and_no_safety() -> None:
    model = network()
    few, many = gaussian_records(60, seed=2), gaussian_records(4000, seed=3)
    (unclear,) = CheckMembership(train=few)(model, gaussian_records(60, seed=4), seed=0).findings
    assert (unclear.id, unclear.severity) == ("membership.unclear", "unclear")
    (known,) = CheckMembership(train=many)(model, gaussian_records(8000, seed=5), seed=0).findings
    assert (known.id, known.severity) == ("membership.not-found", "low")
    assert "no proof" in known.meaning


@pytest.mark.parametrize("train", [None, gaussian_records(30, seed=6)])
def test_too_few_records_claim_nothing(train: Data | None) -> None:
    (finding,) = CheckMembership(train=train)(network(), gaussian_records(10, seed=7), seed=0).findings
    assert finding.severity == "unclear"
    assert "--train TRAIN" in finding.remedy


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
    assert [finding.severity for finding in without.findings] == ["unclear"]


def test_its_cost_counts_every_record_that_an_attack_asks_for() -> None:
    check = CheckMembership(train=gaussian_records(30, seed=0))
    assert check.cost(network(), gaussian_records(50, seed=1)).passes == 3 * 80


def test_without_training_data_it_runs_only_where_it_was_asked_for() -> None:
    plan, train = Settings().plan(), gaussian_records(4, seed=0)
    assert "membership" not in give_training_data(plan, None, chosen=False)
    assert "membership" in give_training_data(plan, None, chosen=True)
    given = give_training_data(plan, train, chosen=False)
    assert list(given) == list(plan)
    assert given["membership"] == CheckMembership(train=train)
