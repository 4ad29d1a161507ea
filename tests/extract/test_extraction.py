"""Extraction as a whole: a linear victim is recovered, digits are copied, and the figures are what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.attack.transfer.proxy import RECIPE as PROXY_RECIPE
from modelkeep.core.access import Scores
from modelkeep.core.errors import InputError, ResultError
from modelkeep.core.registry import declarations, find
from modelkeep.extract.attacks import Attack, Combined, Naive, Repeated
from modelkeep.extract.bayes import PartialBayes
from modelkeep.extract.curve import FidelityCurve
from modelkeep.extract.extraction import Extract, Extraction
from modelkeep.extract.strategies import AdaptiveKnockoff, JacobianAugmentation, Knockoff, Strategy
from modelkeep.extract.substitute import EPOCHS, STEPS, recipe_until_converged
from modelkeep.extract.target import Asked, Guarded
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.training import Recipe
from modelkeep.zoo.architectures import dense

RECIPE = Recipe(epochs=8, batch_size=64, learning_rate=3e-3)
QUICK: dict[str, dict[str, Any]] = {"d-dae": {"shadows": 2}, "neighbours": {"times": 4}}


def test_a_linear_victim_is_recovered() -> None:
    """Softmax answers fix the differences of the rows of W and of b, and the copy has to find them."""
    generator = torch.Generator().manual_seed(0)
    module = nn.Linear(3, 3)
    with torch.no_grad():
        module.weight.copy_(torch.randn(3, 3, generator=generator))
    victim = Model(module, input_shape=(3,), classes=3)
    x = torch.rand(500, 3, generator=generator)
    data = Data(x, victim.predict(x), victim.classes)

    steal = Extract(
        data,
        Knockoff(500),
        architecture=lambda shape, classes: dense(shape, classes, hidden=[]),
        recipe=Recipe(epochs=100, batch_size=100, learning_rate=0.05),
    )
    found = steal(Scores(victim), data, seed=0)
    # The copy normalises its inputs, so it is compared as a function: logits up to a constant per input.
    ours, theirs = found.substitute.logits(x), victim.logits(x)
    torch.testing.assert_close(ours - ours.mean(1, True), theirs - theirs.mean(1, True), atol=0.02, rtol=0)
    assert found.fidelity.value > 0.98


@pytest.mark.parametrize("name", declarations("extraction"))
def test_every_attack_copies_far_better_than_chance(
    name: str, victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    target = Guarded(victim, ModelGuardS(1.0))
    attack: Attack = find("extraction", name).load()(**QUICK.get(name, {}))
    steal = Extract(halves[1], Knockoff(300), attack, recipe=RECIPE, clean=victim, price=2.0)
    found = steal(target, test_digits, seed=0)
    assert found.fidelity.low > 0.3  # ten classes
    per_question = {"smoothing": 3, "repeated": 2, "neighbours": 4}.get(name, 1)
    assert found.queries == target.queries == 300 * per_question
    assert found.cost == pytest.approx(0.6 * per_question)
    assert found.judging_queries == 0
    assert found.defence == "modelguard-s"
    assert found.recovery_distance is not None
    assert found.recovery_distance.n == 300


@pytest.mark.parametrize("kind", ["adaptive", "jbda-tr"])
def test_other_strategies_copy_too(kind: str, victim: Model, halves: tuple[Data, Data], test_digits: Data) -> None:
    pool = halves[1]
    strategy: Strategy = AdaptiveKnockoff(300, rounds=3)
    if kind == "jbda-tr":
        strategy = JacobianAugmentation(300, 75)
    found = Extract(pool, strategy, recipe=RECIPE, clean=victim)(Scores(victim), test_digits, seed=0)
    assert found.fidelity.low > 0.5
    assert found.queries == 300


def test_the_bayes_attack_defeats_modelguard_w_and_the_naive_one_does_not(
    victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    naive, bayes = (
        Extract(halves[1], Knockoff(400), attack, recipe=RECIPE, clean=victim)(
            Guarded(victim, ModelGuardW(1.0)), test_digits, seed=0
        )
        for attack in (Naive(), PartialBayes())
    )
    assert naive.recovery_distance is not None
    assert bayes.recovery_distance is not None
    assert bayes.recovery_distance.high < 0.5 * naive.recovery_distance.low
    assert bayes.fidelity.low > naive.fidelity.high
    assert bayes.means == "clean"


def test_a_thief_rebuilds_the_centroids_from_the_answers(
    victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    """Against a target that tells nothing, the attack that knows the defence recovers as against one that tells all."""
    attack = PartialBayes("answers")
    steal = Extract(halves[1], Knockoff(150), attack, recipe=RECIPE, defence=ModelGuardS(1.0), clean=victim)
    guarded, behind = Guarded(victim, ModelGuardS(1.0)), Guarded(victim, ModelGuardS(1.0))
    far = Asked(behind.probs, input_shape=(1, 8, 8), classes=10, returns="probabilities")
    near_, far_ = (steal(each, test_digits, seed=0) for each in (guarded, far))
    assert near_.recovery_distance == far_.recovery_distance
    # The names of the classes differ, the weights do not.
    ours, theirs = near_.substitute.module.state_dict(), far_.substitute.module.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_without_the_clean_model_the_target_is_asked_to_judge(
    victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    steal = Extract(halves[1], Knockoff(100), recipe=RECIPE)
    asked = steal(Scores(victim), test_digits, seed=0)
    known = replace(steal, clean=victim)(Scores(victim), test_digits, seed=0)
    assert (asked.queries, asked.judging_queries) == (100, len(test_digits))
    assert (asked.fidelity, asked.accuracy) == (known.fidelity, known.accuracy)
    assert asked.recovery_distance is None
    copied = known.substitute.predict(test_digits.x)
    assert known.fidelity.value == float((copied == victim.predict(test_digits.x)).double().mean())
    assert known.accuracy.value == float((copied == test_digits.y).double().mean())


def test_the_seed_decides_everything(victim: Model, halves: tuple[Data, Data], test_digits: Data) -> None:
    def run(seed: int) -> Extraction:
        target = Guarded(victim, ModelGuardS(1.0))
        steal = Extract(halves[1], Knockoff(100), PartialBayes(), recipe=RECIPE, clean=victim)
        return steal(target, test_digits, seed=seed)

    one, two, other = run(0), run(0), run(1)
    assert one.substitute.fingerprint() == two.substitute.fingerprint() != other.substitute.fingerprint()
    assert one.recovery_distance == two.recovery_distance


def test_the_copy_is_saved_and_the_figures_come_back(
    victim: Model, halves: tuple[Data, Data], test_digits: Data, tmp_path: Path
) -> None:
    found = Extract(halves[1], Knockoff(60), recipe=RECIPE, clean=victim)(Scores(victim), test_digits, seed=0)
    path = found.substitute.save(tmp_path / "copy.safetensors")
    assert Model.load(path).fingerprint() == found.substitute.fingerprint()
    again = Result.from_json(found.to_json())
    assert isinstance(again, Extraction)
    assert again.fidelity == found.fidelity
    with pytest.raises(ResultError, match="holds no network"):
        _ = again.substitute
    assert dict(found.rows())["attack"] == "knockoff + naive"
    assert found.draw().axes


def test_a_curve_trains_on_growing_parts_of_the_same_answers(
    victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    target, steal = Scores(victim), Extract(halves[1], Knockoff(300), recipe=RECIPE, clean=victim)
    curve = steal.curve(target, test_digits, budgets=[300, 20, 100], seed=0)
    assert curve.queries == (20, 100, 300)
    assert target.queries == 300
    whole = steal(Scores(victim), test_digits, seed=0)
    assert curve.fidelity[-1] == whole.fidelity
    assert curve.fidelity[0].value < curve.fidelity[-1].value
    told = json.loads(curve.for_dashboard())
    assert told == {"queries": [20, 100, 300], "fidelity": [each.value for each in curve.fidelity]}
    assert isinstance(Result.from_json(curve.to_json()), FidelityCurve)
    assert curve.draw().axes
    with pytest.raises(InputError, match="at most 300"):
        steal.curve(target, test_digits, budgets=[301], seed=0)


def test_a_result_says_how_to_repeat_it(victim: Model, halves: tuple[Data, Data], test_digits: Data) -> None:
    steal = Extract(halves[1], Knockoff(20), PartialBayes(samples=5), recipe=Recipe(steps=1), clean=victim)
    found = steal(Guarded(victim, ModelGuardS(0.5, secret=b"only for the test")), test_digits, seed=3)
    assert found.command == (
        "modelkeep extract MODEL --data DATA --method partial-bayes --samples 5 --strategy knockoff --queries 20 "
        "--defence modelguard-s --epsilon 0.5 --secret … --seed 3"
    )
    assert found.python == "Extract(pool, Knockoff(queries=20), PartialBayes(samples=5))(model, data, seed=3)"
    assert found.provenance.settings["strategy"] == {"name": "knockoff", "queries": 20}
    assert "only for the test" not in found.to_json()
    combined = replace(steal, attack=Combined(Repeated(2), PartialBayes(), rotations=True))
    both = combined(Scores(victim), test_digits, seed=0)
    assert (both.attack, both.means, both.queries, both.command) == ("repeated + partial-bayes", "clean", 40, "")


def test_a_thief_with_few_answers_trains_until_it_helps_no_more(
    victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    """Twenty passes over 60 answers are twenty steps: the copy was given up long before it was as good as it gets."""
    thief = partial(dense, hidden=[32])
    fixed, tried = (
        Extract(halves[1], Knockoff(60), architecture=thief, recipe=recipe, clean=victim)(
            Scores(victim), test_digits, seed=0
        )
        for recipe in (PROXY_RECIPE, None)
    )
    assert tried.fidelity.value > fixed.fidelity.value + 0.1
    assert recipe_until_converged(60).steps == recipe_until_converged(2000).steps == STEPS
    assert (recipe_until_converged(64_000).steps or 0) == EPOCHS * 1000
