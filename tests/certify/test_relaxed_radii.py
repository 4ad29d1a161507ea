"""Radii by linear relaxation: longer than those of the constants, and no attack gets through, in float32."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from certify.networks import NORMS, Net, model_of
from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.certify import Affinity, Certified, Certify, Guarantee, RelaxedTopK, Standard
from modelkeep.core.norms import Norm
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import MinMax
from modelkeep.zoo.datasets import load

RADIUS: dict[Norm, float] = {"l2": 0.3, "linf": 0.03, "l1": 0.5}


@pytest.fixture(scope="module")
def residual() -> tuple[Model, Data]:
    """A small residual network that was trained plainly, with a MinMax and an average pool, and some test digits."""
    train = load("digits", "train").first(600)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        block = Net(lambda s, x: (x + s.inner(x)).relu(), inner=nn.Conv2d(4, 4, 3, padding=1))
        parts = (nn.Conv2d(1, 4, 3, 2, padding=1), MinMax(), block, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 10))
        model = Model(nn.Sequential(*parts), input_shape=(1, 8, 8), classes=train.classes)
    fit(model, train, cross_entropy, Recipe(epochs=10, batch_size=32, learning_rate=1e-2), seed=0)
    return model, load("digits", "test").first(12)


def certified(model: Model, data: Data, norm: Norm, guarantee: Guarantee, relaxation: bool) -> Certified:
    return Certify(radius=RADIUS[norm], norm=norm, guarantee=guarantee, relaxation=relaxation)(model, data, seed=0)


@pytest.mark.parametrize("norm", NORMS)
def test_radii_grow_and_no_attack_gets_within(residual: tuple[Model, Data], norm: Norm) -> None:
    model, data = residual
    constants, found = (certified(model, data, norm, Standard(), both) for both in (False, True))
    assert (found.radii >= constants.radii).all()
    assert constants.proofs == ()
    assert {"linear relaxation"} <= set(found.proofs) <= {"lipschitz", "intervals", "linear relaxation"}
    grown = (found.radii / constants.radii).median()
    assert grown > {"l2": 1.01, "linf": 2, "l1": 1.1}[norm]
    for proof, longer, own in zip(found.proofs, found.radii, constants.radii, strict=True):
        assert (longer > own) == (proof != "lipschitz")
    answers = model.predict(data.x)
    for radius in (0.5, 1.0):
        least = float(found.radii.quantile(radius * 0.5))
        held = found.radii >= least
        part = Data(data.x[held], answers[held], data.classes, bounds=None)
        free = Model(model.module, input_shape=model.input_shape, classes=model.classes, bounds=None)
        attacked = PGD(norm=norm, radius=least * (1 - 1e-5), steps=20)(free, part, seed=0)
        assert attacked.robust_accuracy.value == 1.0


def test_verified_counts_what_any_of_the_bounds_shows(residual: tuple[Model, Data]) -> None:
    model, data = residual
    groups = [("3", "8", "9"), *((name,) for name in "0124567")]
    for guarantee in (Standard(), RelaxedTopK(3), Affinity(groups, data.classes)):
        found = certified(model, data, "linf", guarantee, True)
        shown = found.radii > found.radius
        assert bool((found.sets.any(dim=1) >= shown).all())
        assert found.verified.value <= found.verified_exactly.value
        assert found.verified.value >= certified(model, data, "linf", guarantee, False).verified.value


def test_relaxed_sets_stay_wherever_the_input_is_moved(residual: tuple[Model, Data]) -> None:
    """Random and corner moves within the radius keep some set of the top three."""
    model, data = residual
    found = certified(model, data, "linf", RelaxedTopK(3), True)
    generator = torch.Generator().manual_seed(0)
    for x, radius in zip(data.x, found.radii.tolist(), strict=True):
        away = (torch.rand(300, *x.shape, generator=generator) * 2 - 1).sign() * radius * (1 - 1e-5)
        order, here = (model.logits(each).argsort(dim=1, descending=True) for each in (x + away, x[None]))
        assert any((order[:, :k].sort(dim=1).values == here[:, :k].sort(dim=1).values).all() for k in (1, 2, 3))


def test_of_a_linear_network_the_constants_are_the_best_there_is() -> None:
    model = model_of(nn.Linear(4, 3), 4)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    data = Data(x, torch.zeros(6).long(), model.classes, bounds=None)
    found = Certify(radius=0.1, relaxation=True)(model, data, seed=0)
    own = Certify(radius=0.1)(model, data, seed=0)
    torch.testing.assert_close(found.radii, own.radii, rtol=1e-4, atol=1e-7)
