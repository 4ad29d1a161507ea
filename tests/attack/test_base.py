"""Every attack of the registry says of itself what is true of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import modelkeep.attack
from modelkeep import Data, Model
from modelkeep.attack import Attack, Case
from modelkeep.core.access import Labels, Scores, Weights
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, options_of
from modelkeep.core.registry import declarations
from modelkeep.training import Recipe

ATTACKS: dict[str, Any] = {name: each.load() for name, each in declarations("attack").items()}
SEARCHES = {name: kind for name, kind in ATTACKS.items() if issubclass(kind, Attack) and not kind.of_texts}
NORMS = {name: next(o for o in options_of(kind) if o.name == "norm").setting.choices for name, kind in SEARCHES.items()}


@pytest.fixture
def model() -> Model:
    return Model(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), input_shape=(1, 4, 4), classes=3)


@pytest.fixture
def data(model: Model) -> Data:
    x = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    return Data(x, model.predict(x), model.classes)


@pytest.mark.parametrize(("name", "norm"), [(name, norm) for name, norms in NORMS.items() for norm in norms])
def test_every_attack_runs_by_its_name_in_each_of_its_norms(model: Model, data: Data, name: str, norm: str) -> None:
    attack = SEARCHES[name](**SEARCHES[name].cheap, norm=norm)
    found = attack(model, data)
    assert (found.norm, found.attack) == (norm, attack.title)
    assert found.radius == attack.ball(model).radius
    assert found.provenance.method == f"attack/{name}"
    names = {**vars(modelkeep.attack), "Recipe": Recipe, "model": model, "data": data}
    assert torch.equal(eval(found.python, names).adversarial, found.adversarial)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_sees_no_more_of_the_model_than_it_declares(model: Model, data: Data, name: str) -> None:
    attack = SEARCHES[name](**SEARCHES[name].cheap)
    views = {"weights": Weights, "scores": Scores, "labels": Labels}
    assert attack.sees is views[declarations("attack")[name].access]
    for search in attack.searches(model, data):
        assert issubclass(attack.sees, search.sees)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_norm_that_an_attack_does_not_know_is_refused(name: str) -> None:
    known = ", ".join(map(repr, NORMS[name]))
    with pytest.raises(InputError, match=f"The 'norm' parameter of .* must be one of {known}. Got 'l7' instead."):
        SEARCHES[name](**SEARCHES[name].cheap, norm="l7")


def test_an_attack_of_ones_own_is_one_class(model: Model, data: Data) -> None:
    @declare("attack", "darken", access="labels")
    class Darken(Attack):
        """Everything a little darker."""

        def search(self, case: Case[Labels], /) -> torch.Tensor:
            assert type(case.view) is Labels
            return case.inside(0.9 * case.original)

    found = Darken(target=model.classes[1])(model, data)
    assert found.attack == "Darken"
    assert found.target == model.classes[1]
    with pytest.raises(NotImplementedError):
        Attack()(model, data)
