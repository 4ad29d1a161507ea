"""Radii and shares: right where they can be worked out by hand, refused where nothing can be said."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from certify.networks import DUAL, NORMS, dense, drawn, model_of
from modelkeep import Data, Model
from modelkeep.certify import Affinity, Certify, GloRoNet, RelaxedTopK, Standard
from modelkeep.certify.guarantees import Guarantee
from modelkeep.core.errors import DataError, InputError, ModelError
from modelkeep.core.norms import Norm

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def drawn_data(model: Model, n: int = 60, seed: int = 0, size: float = 3.0) -> Data:
    x = size * torch.randn(n, *model.input_shape, generator=torch.Generator().manual_seed(seed))
    return Data(x, model.predict(x), model.classes, bounds=None)


@pytest.mark.parametrize("norm", NORMS)
def test_radii_of_a_linear_network_are_distances_to_its_boundaries(norm: Norm) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = model_of(nn.Linear(5, 4), 5, classes=4)
    data = drawn_data(model)
    weight, bias = (t.detach().double() for t in (model.module.weight, model.module.bias))  # type: ignore[operator]
    logits = data.x.double() @ weight.T + bias
    top = logits.argmax(dim=1)
    lengths = torch.linalg.vector_norm(weight[top][:, None] - weight[None], ord=DUAL[norm], dim=2)
    distances = (logits.gather(1, top[:, None]) - logits) / lengths
    expected = distances.masked_fill(torch.isnan(distances), math.inf).amin(dim=1)
    found = Certify(radius=0.5, norm=norm)(model, data)
    assert (found.radii <= expected).all()
    torch.testing.assert_close(found.radii, expected, rtol=1e-3, atol=1e-5)
    assert found.verified.value == float((found.radii > 0.5).double().mean())
    assert found.certified_at(0.5).value == found.verified.value  # all labels are the predictions
    assert found.rejected.value == pytest.approx(1 - found.verified.value)
    assert found.verified_exactly.value >= found.verified.value


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_worst_perturbation_of_a_linear_network_does_nothing_just_below_the_radius(norm: Norm) -> None:
    """In float32, where it is known exactly; and a little above the distance to the boundary it works."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = model_of(nn.Linear(300, 2), 300, classes=2)
    data = drawn_data(model, n=400)
    found = Certify(radius=0.1, norm=norm)(model, data)
    weight = model.module.weight.detach().double()  # type: ignore[operator]
    away = (weight[1] - weight[0]) * (1 - 2 * data.y[:, None].double())
    step = away / away.norm(dim=1, keepdim=True) if norm == "l2" else away.sign()

    def fooled(share: float) -> torch.Tensor:
        exact = data.x.double() + share * found.radii[:, None] * step
        moved = exact.float()
        change = torch.linalg.vector_norm(
            moved.double() - data.x.double(), ord={"l2": 2, "linf": math.inf}[norm], dim=1
        )
        if share < 1:
            assert (change < found.radii)[found.radii > 1e-4].all()
        return (model.predict(moved) != data.y) & (found.radii > 1e-4)

    assert not fooled(1 - 1e-3).any()
    assert fooled(1.05).float().mean() > 0.5


def test_bfloat16_radii_hold_for_the_owners_float32_inputs() -> None:
    """The network rounds what it is given: steps much smaller than bfloat16 has are found by trying very many."""
    turn = [[0.8, -0.6], [0.6, 0.8]]
    module = nn.Sequential(dense(turn), nn.LeakyReLU(0.5), dense([[1.0, 0.0], [0.0, 1.0]])).bfloat16()
    model, generator = model_of(module, 2, classes=2), torch.Generator().manual_seed(0)
    x = 3 * torch.randn(300, 2, generator=generator)
    found = Certify(radius=0.01)(model, Data(x, model.predict(x), model.classes, bounds=None))
    certified = torch.nonzero(found.radii > 0).flatten()
    assert len(certified) > 50
    around = torch.randn(4000, 2, generator=generator)
    around = around / around.norm(dim=1, keepdim=True)
    for i in certified[:60].tolist():
        moved = x[i] + (0.999 * float(found.radii[i])) * around
        assert (model.predict(moved) == found.labels[i]).all()
    farther = [model.predict(x[i] + 20 * float(found.radii[i]) * around) != found.labels[i] for i in certified.tolist()]
    assert torch.stack(farther).any()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "guarantee",
    [Standard(), RelaxedTopK(2), Affinity.of_indices([(0, 1), (1, 2)], 3)],
    ids=["standard", "rt2", "affinity"],
)
def test_a_gloro_net_never_promises_more(guarantee: Guarantee, norm: Norm) -> None:
    """It knows the length of an input only, and its own rounded logits."""
    promised = 0
    for seed in (1, 3, 4, 8):
        model = drawn(seed)
        if len(model.classes) != 3:
            continue
        data = drawn_data(model, seed=seed)
        found = Certify(radius=0.05, norm=norm, guarantee=guarantee)(model, data)
        net = GloRoNet(model, 0.05, guarantee, norm=norm)
        assert (net.radii(data.x) <= found.radii).all()
        answered = net.predict(data.x) != net.bottom
        assert (found.sets.any(dim=1) | ~answered).all()
        assert torch.equal(answered, net.logits(data.x).argmax(dim=1) != net.bottom)
        promised += int(answered.sum())
    assert promised > 10


def test_a_constant_network_promises_everything_or_nothing() -> None:
    """Without a weight there is no way to change the answer; with a tie there never is one."""
    module = nn.Linear(2, 3)
    nn.init.zeros_(module.weight)
    module.bias.data.copy_(torch.tensor([1.0, 2.0, 0.0]))
    model = model_of(module, 2)
    data = Data(torch.randn(4, 2), torch.tensor([1, 1, 0, 1]), model.classes, bounds=None)
    found = Certify(radius=100.0)(model, data)
    assert (found.radii > 1e9).all()
    assert found.verified.value == 0.75
    nn.init.zeros_(module.bias)
    assert Certify(radius=1e-9)(model, data).radii.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_inputs_beyond_the_bounds_and_of_any_size_are_certified_or_not_but_never_wrong() -> None:
    model = Model(
        nn.Sequential(dense([[1.0, 0.0], [0.0, 1.0]]), nn.ReLU(), dense([[1.0, 0.0], [0.0, 1.0]])),
        input_shape=(2,),
        classes=2,
    )
    x = torch.tensor([[1e8, 1e8 - 8], [1e8, 1e6], [1e-30, 0.0], [-5.0, -6.0]])
    found = Certify(radius=1.0)(model, Data(x, torch.zeros(4, dtype=torch.int64), model.classes, bounds=None))
    # The first margin of 8 is what float32 could lose; the third is nothing at all; the last is a tie.
    assert found.radii[0] == 0
    assert found.radii[1] > 6e7
    assert found.radii[2] <= 1e-30
    assert found.radii[3] == 0


def test_data_that_the_network_cannot_answer_is_refused() -> None:
    model = model_of(nn.Linear(2, 2), 2, classes=2)
    x, y = torch.full((1, 2), 3e38), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(DataError, match="NaN"):
        Data(x * math.nan, y, model.classes, bounds=None)
    overflowing = model_of(dense([[3.0, 3.0], [-3.0, 3.0]]), 2, classes=2)
    with pytest.raises(ModelError, match="NaN or infinite logits"):
        Certify(radius=0.1)(overflowing, Data(x, y, model.classes, bounds=None))
    with pytest.raises(InputError, match="shape"):
        Certify(radius=0.1)(model, Data(torch.zeros(1, 3), y, model.classes))


@pytest.mark.parametrize("radius", [0.0, -1.0, math.inf, math.nan], ids=["zero", "negative", "infinite", "nan"])
def test_radii_that_are_none_are_refused(radius: float) -> None:
    model = model_of(nn.Linear(2, 2), 2, classes=2)
    with pytest.raises(InputError, match="radius"):
        Certify(radius=radius)(model, drawn_data(model))


def test_weights_that_change_under_a_gloro_net_are_noticed() -> None:
    model = model_of(nn.Linear(2, 2), 2, classes=2)
    net, x = GloRoNet(model, 0.1), torch.zeros(1, 2)
    net.predict(x)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ModelError, match="autocast"):
        net.predict(x)
    with torch.no_grad():
        next(model.module.parameters()).mul_(100)
    with pytest.raises(ModelError, match="weights of this model were changed"):
        net.predict(x)


def test_certifying_leaves_the_network_as_it_was() -> None:
    model = drawn(2)
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    Certify(radius=0.1)(model, drawn_data(model))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.module.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.module.parameters())


def test_an_answer_that_does_not_depend_on_the_input_has_hardly_a_limit_and_can_be_drawn() -> None:
    layer = nn.Linear(5, 4)
    layer.weight.data.zero_()
    model = model_of(layer, 5, classes=4)
    found = Certify(radius=0.1)(model, drawn_data(model))
    assert (found.radii > 1e12).all()  # float32 sums of zeros are exact; the bound of their rounding allows for a trace
    assert found.certified_at(1e9).value == 1.0
    assert found.draw().axes
