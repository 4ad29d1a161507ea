"""Extraction as a whole: a linear victim is recovered, digits are copied, and the figures are what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.core.access import Scores
from modelkeep.core.errors import InputError, ResultError
from modelkeep.extract.attacks import NAIVE, S4L, SMOOTHING, TOP_ONE, Attack, Repeated
from modelkeep.extract.bayes import PartialBayes
from modelkeep.extract.curve import FidelityCurve, fidelity_curve
from modelkeep.extract.extraction import Extraction, extract
from modelkeep.extract.restorer import DDAE, DDAEPlus
from modelkeep.extract.strategies import AdaptiveKnockoff, JacobianAugmentation, Knockoff, Strategy
from modelkeep.extract.target import Asked, Guarded
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.training import Recipe
from modelkeep.zoo.architectures import dense

RECIPE = Recipe(epochs=8, batch_size=64, learning_rate=3e-3)
ATTACKS = [
    NAIVE,
    TOP_ONE,
    S4L,
    SMOOTHING,
    Attack("2-qpi", asking=Repeated(2)),
    Attack("d-dae", recovery=DDAE(shadows=2)),
    Attack("d-dae+", recovery=DDAEPlus()),
    Attack("pbayes", recovery=PartialBayes()),
]


def test_a_linear_victim_is_recovered() -> None:
    """Softmax answers fix the differences of the rows of W and of b, and the copy has to find them."""
    generator = torch.Generator().manual_seed(0)
    module = nn.Linear(3, 3)
    with torch.no_grad():
        module.weight.copy_(torch.randn(3, 3, generator=generator))
    victim = Model(module, input_shape=(3,), classes=3)
    x = torch.rand(500, 3, generator=generator)
    data = Data(x, victim.predict(x), victim.classes)

    found = extract(
        Scores(victim),
        Knockoff(data, 500),
        test=data,
        architecture=lambda shape, classes: dense(shape, classes, hidden=[]),
        recipe=Recipe(epochs=100, batch_size=100, learning_rate=0.05),
        seed=0,
    )
    # The copy normalises its inputs, so it is compared as a function: logits up to a constant per input.
    ours, theirs = found.substitute.logits(x), victim.logits(x)
    torch.testing.assert_close(ours - ours.mean(1, True), theirs - theirs.mean(1, True), atol=0.02, rtol=0)
    assert found.fidelity.value > 0.98


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: str(attack.name))
def test_every_attack_copies_far_better_than_chance(
    attack: Attack, victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    target = Guarded(victim, ModelGuardS(1.0))
    found = extract(
        target, Knockoff(halves[1], 300), attack, test=test_digits, recipe=RECIPE, clean=victim, price=2.0, seed=0
    )
    assert found.fidelity.low > 0.3  # ten classes
    per_question = {"smoothing": 3, "2-qpi": 2}.get(attack.name, 1)
    assert found.queries == target.queries == 300 * per_question
    assert found.cost == pytest.approx(0.6 * per_question)
    assert found.judging_queries == 0
    assert found.defence == "modelguard-s"
    assert found.recovery_distance is not None
    assert found.recovery_distance.n == 300


@pytest.mark.parametrize("kind", ["adaptive", "jbda-tr"])
def test_other_strategies_copy_too(kind: str, victim: Model, halves: tuple[Data, Data], test_digits: Data) -> None:
    pool = halves[1]
    strategy: Strategy = AdaptiveKnockoff(pool, 300, rounds=3)
    if kind == "jbda-tr":
        strategy = JacobianAugmentation(pool.first(75), 300)
    found = extract(Scores(victim), strategy, test=test_digits, recipe=RECIPE, clean=victim, seed=0)
    assert found.fidelity.low > 0.5
    assert found.queries == 300


def test_the_bayes_attack_defeats_modelguard_w_and_the_naive_one_does_not(
    victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    naive, bayes = (
        extract(
            Guarded(victim, ModelGuardW(1.0)),
            Knockoff(halves[1], 400),
            attack,
            test=test_digits,
            recipe=RECIPE,
            clean=victim,
            seed=0,
        )
        for attack in (NAIVE, ATTACKS[-1])
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
    attack = Attack("pbayes", recovery=PartialBayes("answers"))
    strategy = Knockoff(halves[1], 150)
    guarded, behind = Guarded(victim, ModelGuardS(1.0)), Guarded(victim, ModelGuardS(1.0))
    far = Asked(behind.probs, input_shape=(1, 8, 8), classes=10, returns="probabilities")
    near_, far_ = (
        extract(each, strategy, attack, test=test_digits, recipe=RECIPE, defence=ModelGuardS(1.0), clean=victim, seed=0)
        for each in (guarded, far)
    )
    assert near_.recovery_distance == far_.recovery_distance
    # The names of the classes differ, the weights do not.
    ours, theirs = near_.substitute.module.state_dict(), far_.substitute.module.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_without_the_clean_model_the_target_is_asked_to_judge(
    victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    strategy = Knockoff(halves[1], 100)
    asked = extract(Scores(victim), strategy, test=test_digits, recipe=RECIPE, seed=0)
    known = extract(Scores(victim), strategy, test=test_digits, recipe=RECIPE, clean=victim, seed=0)
    assert (asked.queries, asked.judging_queries) == (100, len(test_digits))
    assert (asked.fidelity, asked.accuracy) == (known.fidelity, known.accuracy)
    assert asked.recovery_distance is None
    copied = known.substitute.predict(test_digits.x)
    assert known.fidelity.value == float((copied == victim.predict(test_digits.x)).double().mean())
    assert known.accuracy.value == float((copied == test_digits.y).double().mean())


def test_the_seed_decides_everything(victim: Model, halves: tuple[Data, Data], test_digits: Data) -> None:
    def run(seed: int) -> Extraction:
        target = Guarded(victim, ModelGuardS(1.0))
        return extract(
            target, Knockoff(halves[1], 100), ATTACKS[-1], test=test_digits, recipe=RECIPE, clean=victim, seed=seed
        )

    one, two, other = run(0), run(0), run(1)
    assert one.substitute.fingerprint() == two.substitute.fingerprint() != other.substitute.fingerprint()
    assert one.recovery_distance == two.recovery_distance


def test_the_copy_is_saved_and_the_figures_come_back(
    victim: Model, halves: tuple[Data, Data], test_digits: Data, tmp_path: Path
) -> None:
    found = extract(Scores(victim), Knockoff(halves[1], 60), test=test_digits, recipe=RECIPE, clean=victim, seed=0)
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
    target, strategy = Scores(victim), Knockoff(halves[1], 300)
    curve = fidelity_curve(
        target, strategy, budgets=[300, 20, 100], test=test_digits, recipe=RECIPE, clean=victim, seed=0
    )
    assert curve.queries == (20, 100, 300)
    assert target.queries == 300
    whole = extract(Scores(victim), strategy, test=test_digits, recipe=RECIPE, clean=victim, seed=0)
    assert curve.fidelity[-1] == whole.fidelity
    assert curve.fidelity[0].value < curve.fidelity[-1].value
    told = json.loads(curve.for_dashboard())
    assert told == {"queries": [20, 100, 300], "fidelity": [each.value for each in curve.fidelity]}
    assert isinstance(Result.from_json(curve.to_json()), FidelityCurve)
    assert curve.draw().axes
    with pytest.raises(InputError, match="at most 300"):
        fidelity_curve(target, strategy, budgets=[301], test=test_digits, recipe=RECIPE, seed=0)


def test_test_data_must_fit(victim: Model, halves: tuple[Data, Data]) -> None:
    other = Data(torch.rand(4, 3), torch.tensor([0, 1, 0, 1]), ("a", "b"))
    with pytest.raises(InputError, match="must fit the target"):
        extract(Scores(victim), Knockoff(halves[1], 10), test=other, recipe=Recipe(steps=1), seed=0)
