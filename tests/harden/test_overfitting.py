"""Catastrophic overfitting is provoked, noticed while it trains, and not called where there is none."""

from __future__ import annotations

import pytest

from digits import copy_of
from modelkeep import Data, Model
from modelkeep.attack import FGSM, PGD
from modelkeep.core import progress
from modelkeep.harden import FastTraining, FGSMTraining, PGDTraining, harden, overfitting
from modelkeep.harden.overfitting import OWN, STRONGER, warning
from modelkeep.training import Recipe, fit

RECIPE = Recipe(epochs=20, batch_size=64, learning_rate=1e-2)


def test_a_training_on_one_long_step_overfits_to_it_and_says_so(
    trained_dense: Model, digits: tuple[Data, Data]
) -> None:
    model, notes = copy_of(trained_dense), list[str]()

    class Notes:
        def opened(self, task: progress.Task) -> None: ...
        def changed(self, task: progress.Task) -> None:
            notes.append(task.note)

        def closed(self, task: progress.Task) -> None: ...

    with progress.watch(Notes()):
        fitted = fit(model, digits[0], FGSMTraining(radius=0.3), RECIPE, seed=0)
    # By attacks that know nothing of the training: its own step is met, PGD is not.
    own, stronger = (
        attack(model, digits[0].first(300), seed=0).robust_accuracy.value
        for attack in (FGSM(radius=0.3), PGD(radius=0.3, steps=20))
    )
    assert own > 2 * stronger + 0.1
    (said,) = fitted.provenance.warnings
    assert said.startswith("Step ")
    assert "catastrophic overfitting" in said
    assert "catastrophic overfitting" in str(fitted)
    assert any("catastrophic overfitting" in note for note in notes)
    last = fitted.history[-1].metrics
    assert last[OWN] == pytest.approx(own, abs=0.15)
    assert last[STRONGER] == pytest.approx(stronger, abs=0.1)


@pytest.mark.parametrize("objective", [FGSMTraining(radius=0.1), FastTraining(radius=0.1)])
def test_a_sound_training_is_not_warned_of(
    trained_dense: Model, digits: tuple[Data, Data], objective: FGSMTraining
) -> None:
    fitted = fit(copy_of(trained_dense), digits[0], objective, RECIPE, seed=0)
    assert fitted.provenance.warnings == ()
    assert {OWN, STRONGER} <= fitted.history[0].metrics.keys()
    assert warning({"loss": 0.1}) == warning({OWN: 0.15, STRONGER: 0.0}) == ""


def test_to_look_changes_no_bit_of_the_training(
    trained_dense: Model, digits: tuple[Data, Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe(steps=12, batch_size=32)
    looked = fit(copy_of(trained_dense), digits[0], FastTraining(radius=0.1), recipe, seed=0)
    monkeypatch.setattr(overfitting, "is_time_to_look", lambda step: False)
    plain = fit(copy_of(trained_dense), digits[0], FastTraining(radius=0.1), recipe, seed=0)
    assert looked.model == plain.model
    assert looked.history[0].metrics.keys() == {OWN, STRONGER}
    assert plain.history[0].metrics == {}
    several = fit(copy_of(trained_dense), digits[0], PGDTraining(radius=0.1, steps=2), recipe, seed=0)
    assert several.history[0].metrics == {}


def test_a_hardening_says_it_in_its_health(trained_dense: Model, digits: tuple[Data, Data]) -> None:
    attack, few = PGD(radius=0.3, steps=5), digits[1].first(50)
    hardened = harden(
        copy_of(trained_dense), digits[0], FGSMTraining(radius=0.3), RECIPE, held_out=few, attack=attack, seed=0
    )
    assert any("catastrophic overfitting" in note for note in hardened.health)
