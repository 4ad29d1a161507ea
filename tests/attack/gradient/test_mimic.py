"""Mimic reaches the features of its guide where a closed form says that it can, and fools a head it has never seen."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attack.every_attack import as_seen, named, network, pictures
from modelkeep import Data, Model
from modelkeep.attack.gradient.mimic import Mimic
from modelkeep.core.errors import SliceError


def test_where_the_ball_holds_the_guide_its_features_are_reached() -> None:
    model = named(network())
    data = as_seen(model, pictures())
    place = model.slices()[-2]
    found = Mimic(radius=1.0, steps=200)(model, data, seed=0)
    with torch.no_grad():
        ours, theirs = (model.slice(place).h(x).value for x in (found.adversarial, data.x))
    assert found.success.double().mean() > 0.9
    won = torch.nonzero(found.success).flatten()
    guide = torch.cdist(theirs[won], theirs).masked_fill(data.y[won, None] == data.y, torch.inf).argmin(dim=1)
    before, after = ((at[won] - theirs[guide]).norm(dim=1) for at in (theirs, ours))
    assert bool((data.y[guide] != data.y[won]).all())
    assert float((after / before).median()) < 0.1


def test_a_head_that_it_has_not_seen_is_fooled_too(trained_cnn: Model, digits: tuple[Data, Data]) -> None:
    """A head of the owner's, here by least squares on the training data; the attack sees the features only."""
    data, place = digits[1].first(60), trained_cnn.slices()[-2]
    found = Mimic(radius=0.2, steps=20)(trained_cnn, data, seed=0)

    def features(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            seen = trained_cnn.slice(place).h(x).value.flatten(1)
        return torch.cat([seen, torch.ones(len(seen), 1)], dim=1).double()

    head = torch.linalg.lstsq(
        features(digits[0].x), nn.functional.one_hot(digits[0].y).double(), driver="gelsd"
    ).solution
    noise = 0.2 * torch.randn(data.x.shape, generator=torch.Generator().manual_seed(0)).sign()
    right, moved, shaken = (
        float(((features(x) @ head).argmax(dim=1) == data.y).double().mean())
        for x in (data.x, found.adversarial, (data.x + noise).clamp(0, 1))
    )
    assert right > 0.9
    assert shaken > 0.8
    assert moved < 0.6


def test_a_target_chooses_the_guide_and_an_unknown_place_is_refused() -> None:
    model = named(network())
    data = as_seen(model, pictures())
    found = Mimic(radius=0.5, steps=30, target="1")(model, data, seed=0)
    assert int((found.success & (found.before != 1)).sum()) > 3
    with pytest.raises(SliceError, match="nowhere"):
        Mimic(radius=0.5, slice="nowhere")(model, data, seed=0)
