"""Square finds what the closed form allows, within its budget of queries, and sees nothing but scores."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attack.linear_models import data_for, linear_model
from modelkeep import Data, Model
from modelkeep.attack.query.square import Square, _share
from modelkeep.attack.query.windows import Windows, two_bumps
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Norm

SHAPES = {"table": (6,), "grey": (1, 6, 6), "colour": (3, 4, 5), "line": (2, 9)}
DUALS: dict[Norm, float] = {"linf": 1, "l2": 2, "l1": math.inf}


def distances(model: Model, data: Data, dual: float) -> torch.Tensor:
    """To the boundary of w·x + b: |w·x + b| over the dual norm of w."""
    w: torch.Tensor = model.module.get_parameter("1.weight").detach()
    logits = model.logits(data.x)
    length: torch.Tensor = (w[0] - w[1]).norm(p=dual)
    return (logits[:, 0] - logits[:, 1]).abs() / length


@pytest.mark.parametrize(
    ("norm", "shape"),
    [*(("linf", shape) for shape in SHAPES), *((n, s) for n in ("l2", "l1") for s in ("table", "grey"))],
)
def test_on_a_linear_model_it_finds_what_the_closed_form_allows(norm: Norm, shape: str) -> None:
    model = linear_model(SHAPES[shape], 2)
    data = data_for(model, 40)
    distance = distances(model, data, DUALS[norm])
    radius = float(distance.median())
    found = Square(norm=norm, radius=radius, queries=400)(model, data, seed=0)
    # Random search comes close to the corner of a ball in linf, and less so to the one best direction in l2 and l1.
    easy = distance < radius * {"linf": 0.95, "l2": 0.6, "l1": 0.4}[norm]
    assert int(easy.sum()) >= 10
    assert found.success[easy].double().mean() > 0.9
    assert not found.success[distance > 1.001 * radius].any()
    assert float(found.distance.max()) <= radius
    assert torch.equal(model.predict(found.adversarial) != data.y, found.success)


@pytest.mark.parametrize("queries", [1, 2, 37])
def test_the_budget_is_never_exceeded(queries: int) -> None:
    model = linear_model((1, 6, 6), 2, (0.0, 1.0))
    data = data_for(model, 40)
    asked: list[int] = []
    handle = model.module.register_forward_pre_hook(lambda _, inputs: asked.append(len(inputs[0])))
    found = Square(radius=1e-4, queries=queries, batch_size=25)(model, data, seed=0)
    handle.remove()
    assert found.queries == queries * len(data)
    assert found.gradients == 0
    # What the frame asks besides: the clean answers, a look at whether they are random, and the verification.
    assert sum(asked) <= (queries + 2) * len(data) + 32


def test_solved_examples_cost_nothing_more() -> None:
    model = linear_model((6,), 2)
    data = data_for(model, 40)
    assert Square(radius=3.0, queries=500)(model, data, seed=0).queries < 20 * len(data)


@pytest.mark.parametrize("norm", DUALS)
def test_a_target_and_a_mask_are_kept(norm: Norm) -> None:
    model = linear_model((1, 6, 6), 3, (0.0, 1.0))
    data = data_for(model, 40)
    mask = torch.zeros(1, 6, 6, dtype=torch.bool)
    mask[:, :, 2:] = True
    radius = {"linf": 0.5, "l2": 2.0, "l1": 8.0}[norm]
    found = Square(norm=norm, radius=radius, queries=300, target="2", mask=mask)(model, data, seed=0)
    assert torch.equal(found.success, found.after == 2)
    assert 5 < int((found.success & (found.before != 2)).sum())
    assert torch.equal(found.adversarial[:, :, :, :2], data.x[:, :, :, :2])
    assert found.adversarial.min() >= 0
    assert found.adversarial.max() <= 1


def test_it_needs_no_gradient() -> None:
    class Rounded(nn.Module):
        """Piecewise constant: its gradient is zero everywhere."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            score = (4 * x.flatten(1)).round().sum(dim=1) / 4
            return torch.stack([score, 36 - score], dim=1)

    model = Model(Rounded(), input_shape=(1, 6, 6), classes=2)
    data = data_for(model, 40)
    assert Square(radius=0.3, queries=300)(model, data, seed=0).robust_accuracy.value < 0.1


def test_the_same_seed_finds_the_same() -> None:
    model = linear_model((1, 6, 6), 2, (0.0, 1.0))
    data = data_for(model, 40)
    found = [Square(radius=0.1, queries=50)(model, data, seed=seed).adversarial for seed in (0, 0, 1)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@given(
    shape=st.sampled_from([(7,), (2, 9), (1, 1, 1), (1, 2, 9), (3, 6, 5), (1, 28, 28)]),
    share=st.floats(0.001, 1),
    bumps=st.booleans(),
)
def test_windows_lie_within_the_input_and_hold_no_place_twice(
    shape: tuple[int, ...], share: float, bumps: bool
) -> None:
    windows = Windows(shape, torch.Generator().manual_seed(0))
    place, pattern = windows.draw(4, share, bumps=bumps)
    flat = windows.flat(torch.zeros(4, *shape))
    painted = flat.scatter(2, place, pattern.expand(place.shape).abs())
    assert bool((place.sort(dim=2).values.diff(dim=2) > 0).all())
    assert bool((painted.flatten(1).amax(dim=1) > 0).all())
    if len(shape) == 3 and not bumps:  # a square, unless the image is too narrow for it
        side = max(round(math.sqrt(share * shape[1] * shape[2])), 1)
        assert place.shape[2] == min(side, shape[1]) * min(side, shape[2])
    for whole in (windows.stripes(4), windows.tiles(4)):
        assert whole.shape == (4, *shape)
        assert bool((whole.flatten(1).abs().amax(dim=1) > 0).all())


def test_windows_shrink_as_the_paper_says() -> None:
    # Of 10,000 queries: p from the start, halved after 10, 50, 200, 500, 1000, 2000, 4000, 6000 and 8000.
    shares = [_share(0.8, query / 10_000) for query in (1, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001)]
    assert shares == pytest.approx([0.8 / 2**k for k in range(10)])


def test_two_bumps_are_opposite_and_fall_off_from_their_middles() -> None:
    bumps = two_bumps(6, 5)
    torch.testing.assert_close(bumps[:3], -bumps[3:])
    assert int(bumps[:3].argmax()) == 1 * 5 + 2
    # Equation 2 of the paper: the middle is in the rings 0, 1 and 2, its neighbours in 1 and 2.
    assert float(bumps[1, 2] / bumps[1, 1]) == pytest.approx((1 + 1 / 4 + 1 / 9) / (1 / 4 + 1 / 9))


def test_nonsense_is_refused() -> None:
    model = linear_model((6,), 2)
    data = data_for(model, 40)
    with pytest.raises(InputError, match="'queries' parameter of Square"):
        Square(radius=0.1, queries=0)(model, data, seed=0)
    with pytest.raises(InputError, match="'first_share' parameter of Square"):
        Square(radius=0.1, first_share=0.0)(model, data, seed=0)
    with pytest.raises(InputError, match="'norm' parameter of Square must be one of 'linf', 'l2', 'l1'"):
        Square(norm="l0", radius=2)(model, data, seed=0)
