"""GloRoNet says ⊥ exactly where its bounds do not hold, at the price of one pass, and never by stale bounds."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.certify.gloro import GloRoNet
from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard
from modelkeep.certify.training import make_orthogonal, train_certified
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.norms import Norm
from modelkeep.training import Linear, Recipe
from modelkeep.zoo.architectures import cnn_2c2f, small_liresnet
from modelkeep.zoo.datasets import load

GUARANTEES: dict[str, Guarantee] = {
    "standard": Standard(),
    "relaxed": RelaxedTopK(2),
    "affinity": Affinity([("0", "1"), ("2", "3")], classes=tuple("0123")),
}


def linear(classes: int = 4, features: int = 6) -> Model:
    torch.manual_seed(0)
    return Model(nn.Linear(features, classes), input_shape=(features,), classes=classes, bounds=None)


def points(n: int, features: int = 6) -> torch.Tensor:
    return torch.randn(n, features, generator=torch.Generator().manual_seed(1))


def weight_of(model: Model) -> torch.Tensor:
    return next(iter(model.module.parameters())).detach().double()


def distances(model: Model, x: torch.Tensor, norm: Norm) -> torch.Tensor:
    """How far each point is from another answer, for a linear model in closed form."""
    weight, logits = weight_of(model), model.logits(x).double()
    dual = {"l2": 2.0, "linf": 1.0, "l1": math.inf}[norm]
    found = []
    for row in logits:
        j = int(row.argmax())
        gaps = [
            float((row[j] - row[i]) / torch.linalg.vector_norm(weight[j] - weight[i], ord=dual))
            for i in range(len(row))
            if i != j
        ]
        found.append(min(gaps))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("norm", ["l2", "linf", "l1"])
def test_on_a_linear_model_it_knows_the_distance_to_another_answer(norm: Norm) -> None:
    model, x = linear(), points(200)
    true = distances(model, x, norm)
    radius = float(true.median())
    net = GloRoNet(model, radius, norm=norm)
    radii = net.radii(x)
    assert bool((radii <= true).all())
    assert torch.allclose(radii, true, rtol=1e-3, atol=1e-4)
    predicted = net.predict(x)
    clear = (true - radius).abs() > 1e-3
    expected = torch.where(true > radius, model.predict(x), net.bottom)
    assert torch.equal(predicted[clear], expected[clear])
    assert 50 < int((predicted == net.bottom).sum()) < 150


@pytest.mark.parametrize("name", GUARANTEES.keys())
def test_logits_labels_and_radii_agree(name: str) -> None:
    model, x = linear(), points(300)
    net = GloRoNet(model, 0.2, GUARANTEES[name])
    logits, predicted, radii = net.logits(x), net.predict(x), net.radii(x)
    assert logits.shape == (300, 5)
    assert torch.equal(logits[:, :4], model.logits(x))
    assert torch.equal(logits.argmax(dim=1), predicted)
    clear = (radii - 0.2).abs() > 1e-6
    assert torch.equal((predicted != net.bottom)[clear], (radii > 0.2)[clear])
    assert 0 < int((predicted == net.bottom).sum()) < 300


def test_the_quick_way_of_the_standard_guarantee_is_that_of_all_guarantees() -> None:
    """The top 1 of a relaxed guarantee goes the long way, over all pairs of classes."""
    model, x = linear(), points(300)
    quick, long = GloRoNet(model, 0.2), GloRoNet(model, 0.2, RelaxedTopK(1))
    assert torch.equal(quick.logits(x), long.logits(x))


def test_it_notices_every_usual_way_to_change_weights() -> None:
    def step(model: Model) -> None:
        optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
        model.module(points(2)).sum().backward()
        optimizer.step()

    def load(model: Model) -> None:
        model.module.load_state_dict({name: 2 * tensor for name, tensor in model.module.state_dict().items()})

    def replace(model: Model) -> None:
        assert isinstance(model.module, nn.Linear)
        model.module.weight = nn.Parameter(2 * model.module.weight.detach())

    def round_trip(model: Model) -> None:
        model.module.bfloat16().float()

    for change in (step, load, replace, round_trip):
        model = linear()
        net = GloRoNet(model, 0.1)
        net.predict(points(3))
        change(model)
        for ask in (net.predict, net.logits, net.radii):
            with pytest.raises(ModelError, match="weights of this model were changed after its bounds"):
                ask(points(3))
        GloRoNet(model, 0.1).predict(points(3))


def test_it_notices_a_part_that_was_replaced_or_set_or_hooked() -> None:
    def made() -> Model:
        torch.manual_seed(0)
        return Model(nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.Linear(5, 3)), input_shape=(6,), classes=3)

    def replace(module: nn.Sequential) -> None:
        module[1] = nn.GELU().eval()

    def set_slope(module: nn.Sequential) -> None:
        setattr(module[1], "negative_slope", 5.0)  # noqa: B010 - mypy takes it for a tensor

    def hook(module: nn.Sequential) -> None:
        module[0].register_forward_hook(lambda part, given, result: 9 * result)

    for change in (replace, set_slope, hook):
        model = made()
        net = GloRoNet(model, 0.1)
        assert isinstance(model.module, nn.Sequential)
        change(model.module)
        with pytest.raises(ModelError, match=r"parts of this model were changed|has a hook"):
            net.predict(points(3))


def test_it_refuses_what_cannot_be_certified() -> None:
    with pytest.raises(InputError, match="'radius' parameter of GloRoNet must be a number above 0"):
        GloRoNet(linear(), 0.0)
    model = linear()
    model.module.train()
    with pytest.raises(ModelError, match="train mode"):
        GloRoNet(model, 0.1)
    with pytest.raises(InputError, match="Inputs must have shape"):
        GloRoNet(linear(), 0.1).predict(torch.zeros(2, 5))


def test_orthogonal_weights_keep_lengths_and_come_from_the_seed() -> None:
    def weights(seed: int) -> list[torch.Tensor]:
        torch.manual_seed(99)  # must not matter
        module = small_liresnet((1, 8, 8), 4, blocks=1, width=8, hidden=16)
        make_orthogonal(module, seed)
        return [parameter.detach() for parameter in module.parameters()]

    for tensor in weights(0):
        if tensor.dim() == 1:
            assert not tensor.any()
            continue
        singular = torch.linalg.svdvals(tensor.flatten(1))
        assert torch.allclose(singular, torch.ones_like(singular), atol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(weights(3), weights(3), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(weights(3), weights(4), strict=True))


def test_training_in_one_call_gives_answers_that_no_attack_changes() -> None:
    train, test = load("digits", "train"), load("digits", "test")
    torch.manual_seed(0)
    model = Model(cnn_2c2f(train.input_shape, 10), input_shape=train.input_shape, classes=train.classes)
    recipe = Recipe(epochs=8, batch_size=64, learning_rate=Linear(5e-3, 0.0))
    net = train_certified(model, train, 0.2, seed=0, recipe=recipe)
    predicted = net.predict(test.x)
    certified = predicted != net.bottom
    verified = float((predicted == test.y).double().mean())
    assert verified > 0.7
    held = Data(test.x[certified], predicted[certified], test.classes, bounds=test.bounds)
    assert PGD(norm="l2", radius=0.2, steps=20)(model, held, seed=0).robust_accuracy.value == 1.0


def test_training_for_a_relaxed_guarantee_goes_on_from_given_weights() -> None:
    train = load("digits", "train").first(128)
    torch.manual_seed(0)
    model = Model(cnn_2c2f(train.input_shape, 10), input_shape=train.input_shape, classes=train.classes)
    before = weight_of(model).clone()
    recipe = Recipe(steps=1, batch_size=64, learning_rate=1e-6)
    net = train_certified(model, train, 0.2, seed=0, guarantee=RelaxedTopK(3), recipe=recipe, from_scratch=False)
    assert net.guarantee == RelaxedTopK(3)
    assert torch.allclose(weight_of(model), before, atol=1e-5)
