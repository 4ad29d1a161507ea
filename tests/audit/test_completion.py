"""A cut is judged by its cheaper side; an interval that holds both answers says nothing."""

from __future__ import annotations

import pytest

from digits import digits_cnn, held_out_digits, training_digits
from modelkeep import Estimate
from modelkeep.audit import Settings, completion
from modelkeep.audit.audit import plan_audit
from modelkeep.audit.completion import CheckCompletion, find_sides, judge
from modelkeep.completion.hardness import Bound


def test_the_sides_of_a_cut_share_nothing_and_are_all_of_the_network() -> None:
    first, second = find_sides(digits_cnn(), "conv2")
    module = digits_cnn().module
    lacking, kept = set(first.part.parameters(module)), set(second.part.parameters(module))
    assert not lacking & kept
    assert lacking | kept == {name for name, _ in module.named_parameters()}
    assert {name.partition(".")[0] for name in kept} == {"conv1", "conv2"}
    assert second.missing == "before 'conv2'"


def test_both_sides_are_measured_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_TRAININGS", {"quick": (2, 20, ("T2",))})
    section = CheckCompletion(cut="conv2", train=training_digits())(digits_cnn(), held_out_digits(), seed=0)
    (finding,) = section.findings
    assert finding.id.startswith("completion.")
    assert [measure.name for measure in section.measures] == [
        "cost of getting back what stands behind 'conv2', of the whole training",
        "cost of getting back what stands before 'conv2', of the whole training",
    ]
    assert all(measure.estimate.n == 2 for measure in section.measures)
    assert "'conv2'" in section.lead
    assert "over 2 seeds" in finding.measured


def test_the_verdict_is_that_of_the_cheaper_side() -> None:
    def bound(value: float, low: float, high: float) -> Bound:
        return Bound("p", 0.9, "T2", Estimate(value, low, high, 5), 0, 5, 10, 20, None, None)

    sure, cheap, wide = bound(0.9, 0.8, 1), bound(0.2, 0.1, 0.3), bound(0.45, 0.3, 0.6)
    assert judge({"a": sure, "b": cheap}, "conv2").id == "completion.cheap"
    assert judge({"a": sure, "b": wide}, "conv2").status == "inconclusive"
    fine = judge({"a": sure, "b": sure}, "conv2")
    assert fine.status == "pass"
    assert "upper bound" in fine.meaning


def test_it_needs_a_cut_that_leaves_something_on_both_sides_and_the_training_data() -> None:
    model, test, train = digits_cnn(), held_out_digits(), training_digits()
    assert "--cut" in CheckCompletion(train=train).obstacle(model, test)
    assert "--train" in CheckCompletion(cut="conv2").obstacle(model, test)
    assert "Did you mean 'conv2'" in CheckCompletion(cut="conv22", train=train).obstacle(model, test)
    assert "no parameters" in CheckCompletion(cut="logits", train=train).obstacle(model, test)
    settings = Settings(checks=("completion",), cut="conv2")
    (step,) = plan_audit(model, test, settings, train=train).steps
    assert step.check == CheckCompletion(cut="conv2", train=train, depth="deep")
