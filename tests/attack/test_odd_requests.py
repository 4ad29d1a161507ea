"""Odd networks and odd settings, tried on every attack: each ends in a result or in a sentence that says why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attack.every_attack import (
    After,
    SimpleLogits,
    as_seen,
    every_attack,
    every_attack_by_gradient,
    named,
    network,
    pictures,
)
from modelkeep.attack import PGD, UPSET, Attack, Square, Standard, eot, robustness_curve
from modelkeep.attack.answers import NO_ANSWER
from modelkeep.core.errors import InputError, ModelError
from modelkeep.training import Recipe


class Cliff(nn.Module):
    """A network that gives NaN where the first pixel gets bright, and a useful gradient everywhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x) + 1e-3 * (0.6 - x[:, 0, 0, :1]).sqrt()  # type: ignore[no-any-return]


def below_the_cliff() -> torch.Tensor:
    x = pictures()
    x[:, 0, 0, 0] = 0.58 * x[:, 0, 0, 0]
    return x


@every_attack
def test_nan_inside_the_ball_is_a_wrong_answer_and_no_abort(attack: Attack) -> None:
    model = named(Cliff())
    data = as_seen(model, below_the_cliff()[:16])
    found = attack(model, data, seed=0)
    silent = found.after == NO_ANSWER
    with torch.no_grad():
        assert torch.equal(silent, model.forward(found.adversarial).isnan().any(dim=1))
    assert found.success[silent].all() or found.target is not None
    assert any("NaN" in note and "wrong answer" in note for note in found.health) == bool(silent.any())
    assert int(found.success.sum()) > 1
    wanted = replace(attack, target="1")(model, data, seed=0)
    assert not (wanted.after[wanted.success] == NO_ANSWER).any()
    assert int((wanted.success & (wanted.before != 1)).sum()) > 0


def test_nan_is_found_by_an_attack_without_gradients() -> None:
    """A network that is sure of everything but a corner, where it breaks."""
    model = named(After(Cliff(), after=lambda logits: 0 * logits + torch.eye(3)[0]))
    data = as_seen(model, below_the_cliff())
    found = Square(radius=0.5, queries=50)(model, data, seed=0)
    assert (found.after == NO_ANSWER).any()
    assert found.robust_accuracy.value < 0.5
    found.draw()


class Graphless(nn.Module):
    """A network in NumPy, say: nothing of its input is in a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.net(x)  # type: ignore[no-any-return]


@every_attack_by_gradient
def test_a_network_without_a_graph_gets_a_sentence_or_the_attacks_that_need_none(attack: Attack) -> None:
    model = named(Graphless())
    data = as_seen(model, pictures())
    if not isinstance(attack, Standard):
        with pytest.raises(ModelError, match=r"no graph from the network's input .* \(Square, OnePixel, Boundary\)"):
            attack(model, data, seed=0)
        return
    found = attack(model, data, seed=0)
    assert set(found.solved_by) == {"APGD-CE", "APGD-T", "FAB-T", "Square"}
    assert found.solved_by["Square"] == int(found.success.sum()) > 10
    assert sum("skipped, because there is no graph" in note for note in found.health) == 3
    learnt = UPSET(radius=0.2, recipe=Recipe(steps=2))
    with pytest.raises(ModelError, match="no graph from the network's input"):
        learnt(model, data, seed=0)


@every_attack
def test_each_example_may_have_a_target_of_its_own(attack: Attack) -> None:
    model = named(network())
    data = as_seen(model, pictures())
    wanted = (data.y + 1) % 3
    found = replace(attack, target=wanted)(model, data, seed=0)
    assert int(found.success.sum()) > 0
    assert torch.equal(found.success, found.after == wanted)
    assert found.target == "a class for each example"
    assert "target=…" in found.python


def test_targets_follow_their_examples_through_a_curve_and_nonsense_is_refused() -> None:
    model = named(network())
    data = as_seen(model, pictures())
    wanted = (data.y + 1) % 3
    mask = torch.ones(30, 1, 4, 4, dtype=torch.bool)
    curve = robustness_curve(model, data, PGD(radius=0.1, steps=5, target=wanted, mask=mask), [0.05, 0.3], seed=0)
    assert curve.accuracy[1].value > curve.accuracy[2].value
    for wrong, why in (
        (wanted[:5], r"integers of shape \(30,\). Got torch.int64 of shape \(5,\)"),
        (wanted.float(), "Got torch.float32"),
        (wanted + 1, "within 0..2. Got labels from 1 to 3"),
    ):
        with pytest.raises(InputError, match=why):
            PGD(radius=0.1, target=wrong)(model, data, seed=0)


@pytest.mark.parametrize("radius", [torch.tensor(0.15), np.float32(0.15), torch.tensor([0.15]), np.array(0.15)])
def test_a_radius_may_be_a_tensor_with_one_number(radius: Any) -> None:
    model = named(network())
    data = as_seen(model, pictures())
    found = PGD(radius=radius, steps=5)(model, data, seed=0)
    plain = PGD(radius=float(radius), steps=5)(model, data, seed=0)
    assert type(found.radius) is float
    assert (found.command, found.to_json().count("base64")) == (plain.command, plain.to_json().count("base64"))
    assert torch.equal(found.adversarial, plain.adversarial)


def test_several_radii_are_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"'radius' parameter of PGD must be one number, above 0 .* Got '30 of them'"):
        PGD(radius=torch.full((30,), 0.1))  # type: ignore[arg-type]


@every_attack
def test_where_the_mask_allows_nothing_nothing_is_tried(attack: Attack) -> None:
    model = named(network())
    data = as_seen(model, pictures())
    mask = torch.zeros(30, 1, 4, 4, dtype=torch.bool)
    none = replace(attack, mask=mask)(model, data, seed=0)
    sealed = "nothing may be changed in 30 of 30 examples: they stand by the mask alone"
    assert none.target is not None or (none.health == (sealed,) and not none.success.any())
    assert (none.queries, none.gradients) == (0, 0)
    mask[:15] = True
    half = replace(attack, mask=mask)(model, data, seed=0)
    assert half.success[:15].any()
    assert torch.equal(half.adversarial[15:], data.x[15:])


@pytest.mark.parametrize("form", [lambda z: {"loss": None, "logits": z}, lambda z: (z[:, 0], z), SimpleLogits])
def test_outputs_as_hugging_face_gives_them_are_attacked(form: Callable[[torch.Tensor], Any]) -> None:
    plain, wrapped = named(network()), named(After(network(), after=form))
    data = as_seen(plain, pictures())
    for attack in (PGD(radius=0.1, steps=5), Standard(radius=0.1, steps=5, queries=20)):
        theirs, ours = attack(plain, data, seed=0), attack(wrapped, data, seed=0)
        assert torch.equal(theirs.adversarial, ours.adversarial)
    averaged = PGD(radius=0.1, steps=5)(eot(wrapped, 2), data, seed=0)
    assert int(averaged.success.sum()) > 3
