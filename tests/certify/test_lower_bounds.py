"""Lower bounds: exact on linear models, what dense sampling finds on small networks, and never above the truth."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from modelkeep.certify.constants import lipschitz
from modelkeep.certify.lower_bounds import LipschitzSearch
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.results import Result

NORMS: tuple[Norm, ...] = ("l2", "linf", "l1")


def uniform(n: int, *shape: int, classes: int = 3) -> Data:
    x = torch.rand(n, *shape, generator=torch.Generator().manual_seed(1))
    return Data(x, torch.zeros(n, dtype=torch.int64), tuple(map(str, range(classes))))


def network(*parts: nn.Module, shape: tuple[int, ...], classes: int = 3, seed: int = 0) -> Model:
    """The module with weights drawn from the seed."""
    random = torch.Generator().manual_seed(seed)
    module = nn.Sequential(*parts)
    for parameter in module.parameters():
        parameter.data.normal_(generator=random)
    return Model(module, input_shape=shape, classes=classes)


@pytest.mark.parametrize("norm", NORMS)
def test_exact_on_a_linear_model(norm: Norm) -> None:
    model = network(nn.Linear(5, 3), shape=(5,))
    weight = model.module.get_parameter("0.weight").detach().double()
    dual = {"l2": 2.0, "linf": 1.0, "l1": float("inf")}[norm]
    truth = (weight[:, None] - weight[None]).norm(p=dual, dim=2)
    data, radius = uniform(20, 5), 1e-3
    top = model.logits(data.x).topk(2).values
    assert ((top[:, 0] - top[:, 1]) > 2 * radius * truth.max()).all()  # no prediction changes in a ball
    found = LipschitzSearch(norm=norm, local_radius=radius, steps=3)(model, data, seed=0)
    assert found.constant == pytest.approx(float(truth.max()), rel=1e-9)
    assert found.constant <= float(truth.max()) * (1 + 1e-12)
    assert (found.margins <= truth * (1 + 1e-12)).all()
    assert found.local is not None
    around = truth[model.predict(data.x)].amax(dim=1).mean()
    assert found.local.value == pytest.approx(float(around), rel=1e-4)  # the ends are float32, and close


@pytest.mark.parametrize("seed", range(4))
def test_reaches_what_dense_sampling_finds_and_not_more_than_there_is(seed: int) -> None:
    """Two inputs, six hidden units: all 64 linear pieces that there may be, and the slopes on a fine grid."""
    model = network(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3), shape=(2,), seed=seed)
    first, last = (model.module.get_parameter(f"{i}.weight").detach().double() for i in (0, 2))
    axis = torch.linspace(0, 1, 101)
    grid = torch.cartesian_prod(axis, axis)
    logits = model.logits(grid)
    hidden = model.module[0](grid).detach() > 0  # type: ignore[index]
    apart = last[logits.argmax(dim=1)][:, None] - last[None]  # (n, 3, 6)
    sampled = float(((apart * hidden[:, None]) @ first).norm(dim=2).max())
    pieces = [
        (((last[:, None] - last[None]) * torch.tensor(on)) @ first).norm(dim=2)
        for on in itertools.product([0.0, 1.0], repeat=6)
    ]
    most = torch.stack(pieces).amax(dim=0)
    found = LipschitzSearch(steps=60)(model, uniform(50, 2), seed=0)
    assert found.constant >= 0.97 * sampled
    assert (found.margins <= most * (1 + 1e-12)).all()


@pytest.mark.parametrize("norm", NORMS)
def test_never_above_the_sound_upper_bound(norm: Norm) -> None:
    model = network(
        nn.Conv2d(2, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(16, 3), shape=(2, 6, 6)
    )
    found = LipschitzSearch(norm=norm, local_radius=0.5, steps=20)(model, uniform(10, 2, 6, 6), seed=0)
    upper = lipschitz(model, norm).margins
    assert (found.margins <= upper).all()
    assert found.constant > 0.1 * float(upper.max())
    assert found.local is not None
    assert 0 < found.local.value <= found.constant


def test_local_pairs_stay_in_the_ball() -> None:
    """A kink at 1: flat before it, steep behind."""
    model = network(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2), shape=(1,), classes=2)
    state = {"0.weight": [[1.0]], "0.bias": [-1.0], "2.weight": [[5.0], [0.0]], "2.bias": [0.0, 0.0]}
    model.module.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    data = Data(torch.tensor([[0.5], [0.9]]), torch.zeros(2, dtype=torch.int64), ("0", "1"))
    near, farther = (LipschitzSearch(local_radius=r)(model, data, seed=0).local for r in (0.05, 0.3))
    assert near is not None
    assert near.value == 0  # and no NaN where nothing moves
    assert farther is not None
    assert farther.value == pytest.approx(2.5, rel=0.01)  # only the second example's ball reaches the kink


def test_found_again_with_the_same_seed_and_read_back() -> None:
    model, data = network(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), shape=(4,)), uniform(9, 4)
    before = model.fingerprint()
    first, again = (LipschitzSearch(local_radius=0.2, steps=5)(model, data, seed=3) for _ in range(2))
    assert (first.constant, first.local) == (again.constant, again.local)
    assert model.fingerprint() == before
    assert Result.from_json(first.to_json()).rows() == first.rows()
    assert "at least" in str(first)


def test_bad_parameters_are_refused() -> None:
    model, data = network(nn.Linear(4, 3), shape=(4,)), uniform(3, 4)
    with pytest.raises(InputError, match="steps"):
        LipschitzSearch(steps=0)(model, data, seed=0)
    with pytest.raises(InputError, match="radius"):
        LipschitzSearch(local_radius=-1)(model, data, seed=0)
