"""A linear head is solved to the last answer, a network is copied, and what was not measured is not said."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from digits import digits_cnn, held_out_digits, training_digits
from modelkeep import Estimate, Model
from modelkeep.audit import extraction
from modelkeep.audit.cost import Pace
from modelkeep.audit.extraction import CheckExtraction, Copies, judge
from modelkeep.training import Recipe


@pytest.fixture(autouse=True)
def quick_thief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "_RECIPE", Recipe(steps=60, batch_size=64, learning_rate=5e-3))


def test_a_copy_of_a_network_is_measured_with_and_without_a_guard_and_against_true_labels() -> None:
    section = CheckExtraction(train=training_digits())(digits_cnn(), held_out_digits(), seed=0)
    (finding,) = section.findings
    assert finding.id in ("extraction.copied", "extraction.unclear", "extraction.poor-copy")
    assert (finding.access, finding.queries) == ("scores", 300)
    names = [measure.name for measure in section.measures]
    assert names == [
        "answers that a thief copied by 300 questions",
        "answers that a thief copied by 100 questions",
        "the same behind a guard, 300 questions",
        "answers that a network shares which learned 300 true labels",
    ]
    assert finding.value == section.measures[0]
    assert section.measures[0].estimate.n == len(held_out_digits())
    assert "training inputs" in section.lead


def test_a_linear_head_is_solved_and_half_of_the_data_is_asked_about_without_training_data() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        head = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    model = Model(head, input_shape=(1, 8, 8), classes=10)
    section = CheckExtraction()(model, training_digits().sample(400, 0), seed=0)
    (finding,) = section.findings
    assert (finding.id, finding.severity) == ("extraction.easily-stolen", "high")
    assert finding.queries == 16 + 256 + 2 * 65
    assert finding.value is not None
    assert finding.value.estimate.value == 1.0
    assert "one half of the data" in section.lead
    assert "by 100 questions" in section.measures[-3].name


def rate(share: float, n: int = 400) -> Estimate:
    return Estimate.rate(round(share * n), n)


def test_the_verdict_follows_the_interval_and_the_advice_what_was_measured() -> None:
    def copies(answers: float, guarded: float, n: int = 400) -> Copies:
        last = rate(answers, n)
        return Copies((100, 300), (rate(0.5, n), last), (rate(0.4, n), rate(guarded, n)), (rate(0.3, n), rate(0.3, n)))

    helped, useless = judge(copies(0.97, 0.5), None), judge(copies(0.97, 0.97), None)
    assert helped.id == useless.id == "extraction.copied"
    assert helped.title.startswith("300 answers")
    assert "A guard helped here" in helped.remedy
    assert "did not stop" in useless.remedy
    assert "taught more than true labels" in helped.meaning
    assert judge(copies(0.6, 0.5), None).status == "pass"
    assert judge(copies(0.9, 0.5, 50), None).status == "inconclusive"


def test_it_says_why_it_cannot_run_and_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, few = digits_cnn(), training_digits().sample(60, 0)
    assert CheckExtraction().obstacle(model, few) == "It needs 200 examples or more, and has 60."
    monkeypatch.setattr(extraction, "_time_step", lambda *_: 0.001)  # the machine's pace is not what is tested
    train = training_digits()
    quick, deep = (CheckExtraction(depth=depth, train=train).cost(model, few) for depth in ("quick", "deep"))
    pace = Pace(1e-5, 1e-9)
    assert 0 < pace.seconds(quick) < pace.seconds(deep)
