"""Property inference: what a training set was like is told from networks that learned it, and not from noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.core.results import Result
from modelkeep.privacy import InvertModel
from modelkeep.privacy.property import InferProperty, PropertyInferred
from modelkeep.privacy.property.attack import Shadowed, learn_properties, measure_baselines
from modelkeep.privacy.property.meta_classifier import MetaTraining
from modelkeep.privacy.property.score import chance
from modelkeep.privacy.property.shadow_sets import Procedure, draw_properties, make_sets, weigh_inputs
from modelkeep.training import Recipe, cross_entropy


@dataclass(frozen=True)
class Corner:
    """A property of a toy: the second class is bright in these rows."""

    name: str
    rows: slice

    def __call__(self, data: Data, *, seed: int = 0) -> Data:
        x = data.x.clone()
        x[data.y == 1, :, self.rows] += 0.7
        return replace(data, x=x)


CORNERS = (Corner("top", slice(0, 4)), Corner("bottom", slice(8, 12)))
RECIPE = Recipe(epochs=8, batch_size=16, learning_rate=3e-3)


def pictures() -> Data:
    """Two classes that do not differ yet."""
    generator = torch.Generator().manual_seed(0)
    x = 0.2 * torch.rand(64, 1, 12, 12, generator=generator)
    return Data(x, torch.arange(64) % 2, ("a", "b"), bounds=(0, 1))


def network() -> Model:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Flatten(), nn.Linear(144, 16), nn.ReLU(), nn.Linear(16, 2))
    return Model(layers, input_shape=(1, 12, 12), classes=("a", "b"))


@pytest.fixture(scope="module")
def inferred() -> PropertyInferred:
    data = pictures()
    target = Procedure(network(), data, cross_entropy, RECIPE, CORNERS).train(1, seed=99)
    method = InferProperty(shadows=40, inversion=InvertModel(per_class=2, steps=20), epochs=12)
    return method(target, data, properties=CORNERS, recipe=RECIPE, seed=0)


def test_the_mark_of_the_target_is_told_and_the_result_goes_through_json(inferred: PropertyInferred) -> None:
    assert inferred.likeliest == "bottom"
    assert inferred.f1.low > chance(2)
    assert inferred.leaks
    assert int(inferred.confusion.sum()) == inferred.f1.n == 8
    back = Result.from_json(inferred.to_json())
    assert isinstance(back, PropertyInferred)
    assert torch.equal(back.x, inferred.x)
    assert "properties leak" in str(inferred)
    assert inferred.draw() is not None


def test_shuffled_labels_teach_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(90, 4, 1, 12, 12, generator=generator)
    shadowed = Shadowed(("a", "b", "c"), noise, noise[:, 0], torch.tensor(draw_properties(90, 3, 0)), held_out=60)
    told = learn_properties(shadowed, MetaTraining(epochs=5), seed=0)
    assert told.f1.low <= chance(3)
    for each in measure_baselines(shadowed, MetaTraining(epochs=5), seed=0).values():
        assert each.low <= chance(3)


def test_the_first_shadows_of_a_plan_are_a_plan() -> None:
    which = draw_properties(30, 14, seed=1)
    assert sorted(which[:14]) == sorted(which[14:28]) == list(range(14))
    assert draw_properties(16, 14, seed=1) == which[:16]


def test_fewer_shadows_leave_the_held_out_ones_alone() -> None:
    sets = torch.arange(10.0).view(10, 1, 1, 1, 1)
    shadowed = Shadowed(("a", "b"), sets, sets[:, 0], torch.arange(10) % 2, held_out=3).first(4)
    assert shadowed.sets.flatten().tolist() == [0, 1, 2, 3, 7, 8, 9]
    assert shadowed.weights.flatten().tolist() == [0, 1, 2, 3, 7, 8, 9]


def test_weights_are_weighed_in_any_order_of_units() -> None:
    model = network()
    weight = model.module[1].weight.detach()  # type: ignore[index]
    torch.testing.assert_close(weigh_inputs(model).flatten(), weight.pow(2).mean(dim=0).sqrt())


def test_shadows_repeat_from_their_seeds() -> None:
    procedure = Procedure(network(), pictures(), cross_entropy, Recipe(epochs=1), CORNERS)
    invert = InvertModel(per_class=1, steps=3)
    one, two = (make_sets(procedure, invert, [0, 1], [5, 6]) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])
    assert one[0].shape == (2, 2, 1, 12, 12)


def test_one_property_alone_is_refused() -> None:
    with pytest.raises(InputError, match="2 or more"):
        InferProperty()(network(), pictures(), properties=CORNERS[:1], recipe=RECIPE)
