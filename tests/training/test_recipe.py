"""Recipes: JSON and back, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.training import (
    SGD,
    TFDS,
    Adam,
    Augmentation,
    EarlyStop,
    ExponentialAfterHalf,
    Linear,
    Logarithmic,
    Recipe,
    RMSProp,
    StepDecay,
)

share = st.floats(0.01, 0.9)
recipes = st.builds(
    Recipe,
    epochs=st.integers(1, 10),
    batch_size=st.integers(1, 512),
    optimizer=st.one_of(
        st.builds(SGD, share, st.booleans(), share), st.builds(Adam, eps=share), st.builds(RMSProp, share, share)
    ),
    learning_rate=st.one_of(
        share,
        st.builds(Linear, share, share, share, st.sampled_from(["step", "epoch"])),
        st.builds(Logarithmic, share, share),
        st.builds(ExponentialAfterHalf, share, share),
        st.just(StepDecay(((0, 0.1), (5, 0.01)))),
    ),
    augmentation=st.one_of(st.none(), st.just(TFDS), st.builds(Augmentation, st.booleans(), share)),
    early_stop=st.one_of(st.none(), st.builds(EarlyStop, st.integers(1, 5), st.sampled_from(["loss", "accuracy"]))),
    trainable=st.sampled_from([(), ("head",), ("a", "b.c")]),
)


@given(recipes)
def test_json_and_back(recipe: Recipe) -> None:
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


@pytest.mark.parametrize(
    "make",
    [
        lambda: Recipe(),
        lambda: Recipe(epochs=1, steps=1),
        lambda: Recipe(epochs=0),
        lambda: Recipe(steps=1, batch_size=0),
        lambda: Recipe(steps=1, learning_rate=-0.1),
        lambda: Recipe(steps=1, learning_rate=float("nan")),
        lambda: Recipe(steps=1, evaluate_every=0),
        lambda: EarlyStop(0),
        lambda: Recipe.from_json({"epochs": 1, "learning_rates": 0.1}),
        lambda: Recipe.from_json({"epochs": 1, "optimizer": {"kind": "lion"}}),
        lambda: Recipe.from_json({"epochs": -1}),
    ],
)
def test_nonsense_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InputError):
        make()


def test_trainable_names_whole_parts() -> None:
    recipe = Recipe(epochs=1, trainable=("conv1", "head.weight"))
    assert recipe.trains("conv1.bias")
    assert recipe.trains("head.weight")
    assert not recipe.trains("conv10.bias")
    assert not recipe.trains("head.bias")
    assert Recipe(epochs=1).trains("anything")
