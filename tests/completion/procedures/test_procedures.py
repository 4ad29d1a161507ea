"""T1 to T4: what stays stays, what is missing is never looked at, and what is folded answers the same."""

from __future__ import annotations

import signal
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from modelkeep import Data, Model
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.initialisation import Initialisation
from modelkeep.completion.procedures.joint_training import FrozenTraining, JointTraining
from modelkeep.completion.procedures.overparametrisation import Overparametrisation, fold, overparametrise
from modelkeep.completion.procedures.procedure import Procedure
from modelkeep.core.errors import InputError
from modelkeep.rl.networks import atari_actor_critic
from modelkeep.training import SGD, Adam, Recipe
from modelkeep.training.part import tensors_of
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_resnet

RECIPE = Recipe(
    steps=6, batch_size=60, evaluate_every=3, optimizer=SGD(momentum=0.9, weight_decay=0.01), learning_rate=0.05
)
PROCEDURES: list[Procedure] = [
    JointTraining(),
    FrozenTraining(),
    Overparametrisation(width=2),
    Overparametrisation(width=2, between="relu"),
    Initialisation(scheme="msra"),
]
PARTS = {
    "block": Part("block", ("section2.block1",)),
    "no skip": Part("no skip", ("section2.block1",), without=("section2.block1.skip",)),
    "two layers": Part("two layers", ("conv1", "logits")),
    "share": Part("share", ("",), share=0.4),
    "share of weights": Part("share of weights", ("logits.weight", "conv1.conv"), share=0.4),
    "share of a block": Part("share of a block", ("section3",), without=("section3.block1.skip",), share=0.5),
}
each_procedure = pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda procedure: procedure.name)


class Recurrent(nn.Module):
    """Reads an image row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.lstm(x.squeeze(1))[0][:, -1])
        return found


@pytest.fixture(scope="module")
def data() -> Data:
    return datasets.load("digits", "train").first(240)


def with_statistics(module: nn.Module) -> Model:
    """Its norms have statistics that no fresh norm has."""
    with torch.no_grad():
        for _ in range(20):
            module.train()(torch.rand(32, 1, 8, 8))
    return Model(module, input_shape=(1, 8, 8), classes=10)


def resnet() -> Model:
    torch.manual_seed(0)
    return with_statistics(small_resnet((1, 8, 8), 10, blocks=1, width=4))


def problem(model: Model, part: Part, data: Data, recipe: Recipe = RECIPE) -> Problem:
    return Problem(model, part, data, data.first(60), recipe)


@each_procedure
def test_a_procedure_leaves_the_model_as_it_is_and_gives_the_same_for_the_same_seed(
    procedure: Procedure, data: Data
) -> None:
    model = resnet()
    before = model.fingerprint()
    given = problem(model, PARTS["block"], data)
    one, two, other = procedure(given, seed=1), procedure(given, seed=1), procedure(given, seed=2)
    assert model.fingerprint() == before
    assert one.curve == two.curve
    assert one.model.fingerprint() == two.model.fingerprint() != other.model.fingerprint()
    assert one.curve.steps == (0, 3, 6)
    held_out = given.held_out
    wrong = (one.model.predict(held_out.x) != held_out.y).double().mean().item()
    assert one.curve.losses[-1] == pytest.approx(wrong, abs=1 / 60)


@each_procedure
def test_a_procedure_does_not_look_at_what_is_missing(procedure: Procedure, data: Data) -> None:
    model, part = resnet(), PARTS["no skip"]
    given = problem(model, part, data)
    found = procedure(given, seed=1)
    with torch.no_grad():
        for name, tensor in tensors_of(model.module).items():
            if name in part and tensor.is_floating_point():
                tensor.fill_(float("inf"))
    again = procedure(given, seed=1)
    assert again.curve == found.curve
    assert again.model.fingerprint() == found.model.fingerprint()


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_t1_and_t2_do_not_look_at_missing_elements(share: float, data: Data) -> None:
    model, part = resnet(), Part("share", ("section1", "logits"), share=share)
    for procedure in (JointTraining(), FrozenTraining()):
        given = problem(model, part, data)
        found = procedure(given, seed=1)
        copy = deepcopy(model)
        with torch.no_grad():
            for name, missing in part.missing_elements(copy.module).items():
                copy.module.get_parameter(name).masked_fill_(missing, 1e9)
        again = procedure(replace(given, model=copy), seed=1)
        assert again.model.fingerprint() == found.model.fingerprint()


@pytest.mark.parametrize("part", PARTS.values(), ids=list(PARTS))
@pytest.mark.parametrize("optimizer", [SGD(momentum=0.9, weight_decay=0.1), Adam(weight_decay=0.1, decoupled=True)])
def test_t2_keeps_everything_that_is_not_missing_to_the_bit(part: Part, optimizer: SGD | Adam, data: Data) -> None:
    model = resnet()
    found = FrozenTraining()(problem(model, part, data, replace(RECIPE, optimizer=optimizer)), seed=1)
    before, after, missing = (
        tensors_of(model.module),
        tensors_of(found.model.module),
        part.missing_elements(model.module),
    )
    # An ordinary module again: the same names in the same order, and parameters that can be trained.
    assert list(after) == list(before)
    assert str(found.model.module) == str(model.module)
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in found.model.module.parameters())
    start = tensors_of(problem(model, part, data).initial_model(1).module)
    for name, tensor in after.items():
        kept = ~missing[name] if name in missing else torch.full_like(tensor, name not in part or part.share < 1) == 1
        assert torch.equal(tensor[kept], before[name][kept]), name
        if name in missing:
            assert not torch.equal(tensor, start[name]), f"{name} was not trained"


def test_a_norm_within_the_missing_part_learns_its_statistics(data: Data) -> None:
    model = resnet()
    found = FrozenTraining()(problem(model, PARTS["no skip"], data), seed=1).model.module
    counts = {name: int(buffer) for name, buffer in found.named_buffers() if name.endswith("num_batches_tracked")}
    assert {name for name, count in counts.items() if count == 6} == {
        f"section2.block1.residual.conv{i}.norm.num_batches_tracked" for i in (1, 2)
    }


@pytest.mark.parametrize("share", [1.0, 0.35])
def test_t2_is_a_loop_written_by_hand(share: float, data: Data) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 10))
    part = Part("first", ("1",), share=share)
    given = problem(with_statistics(module), part, data, replace(RECIPE, batch_size=len(data)))
    start = given.initial_model(3).module
    velocity = {name: torch.zeros_like(parameter) for name, parameter in part.parameters(start).items()}
    for _ in range(6):
        start.zero_grad()
        torch.autograd.backward(cross_entropy(start(data.x), data.y))
        with torch.no_grad():
            for name, missing in part.missing_elements(start).items():
                parameter = start.get_parameter(name)
                assert parameter.grad is not None
                velocity[name].mul_(0.9).add_((parameter.grad + 0.01 * parameter) * missing)
                parameter.sub_(0.05 * velocity[name])
    found = FrozenTraining()(given, seed=3).model.module
    for name, parameter in start.named_parameters():
        assert torch.allclose(parameter, found.get_parameter(name), atol=1e-6), name


def test_a_share_of_a_recurrent_layer_is_trained_and_used(data: Data) -> None:
    torch.manual_seed(0)
    model, part = with_statistics(Recurrent()), Part("share", ("lstm",), share=0.5)
    recipe = replace(RECIPE, steps=60, evaluate_every=60, optimizer=Adam(), learning_rate=0.02)
    found = FrozenTraining()(problem(model, part, data, recipe), seed=0)
    assert found.curve.losses[-1] < found.curve.losses[0] - 0.1
    for name, missing in part.missing_elements(model.module).items():
        was, now = model.module.get_parameter(name), found.model.module.get_parameter(name)
        assert torch.equal(was[~missing], now[~missing])
        assert (was[missing] != now[missing]).all()
    # A recurrent layer has a list of its weights beside its parameters: both must be the trained ones.
    copy = Recurrent().eval()
    copy.load_state_dict(found.model.module.state_dict())
    assert torch.allclose(copy(data.x), found.model.logits(data.x), atol=1e-6)
    moved = deepcopy(found.model.module)
    nn.init.zeros_(moved.get_parameter("lstm.weight_hh_l0"))
    assert not torch.allclose(moved(data.x), found.model.logits(data.x), atol=1e-3)


@pytest.mark.parametrize(
    ("procedure", "part"),
    [(FrozenTraining(), PARTS["share"]), (Overparametrisation(width=2), PARTS["block"])],
    ids=["T2 share", "T3"],
)
def test_an_interrupted_procedure_goes_on_to_the_same_end(
    procedure: Procedure, part: Part, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, path = problem(resnet(), part, data), tmp_path / "run"
    wanted = procedure(given, seed=0)
    forward, calls = Model.forward, count()

    def pressed(model: Model, x: torch.Tensor) -> torch.Tensor:
        if model.module.training and next(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        return forward(model, x)

    monkeypatch.setattr(Model, "forward", pressed)
    with pytest.raises(KeyboardInterrupt):
        procedure(given, seed=0, checkpoint=path)
    for _ in range(2):  # the second time it has ended already
        found = procedure(given, seed=0, checkpoint=path)
        assert (found.curve, found.model.fingerprint()) == (wanted.curve, wanted.model.fingerprint())
    assert next(calls) == 6  # no step was taken twice


@given(
    groups=st.integers(1, 3),
    inputs=st.integers(1, 3),
    outputs=st.integers(1, 3),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    dilation=st.integers(1, 2),
    padding=st.integers(0, 1),
    mode=st.sampled_from(["zeros", "reflect", "circular"]),
    bias=st.booleans(),
    width=st.integers(1, 5),
)
def test_two_linear_layers_fold_into_one_with_the_same_answers(
    groups: int,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    dilation: int,
    padding: int,
    mode: str,
    bias: bool,
    width: int,
) -> None:
    conv = nn.Conv2d(
        groups * inputs,
        groups * outputs,
        kernel,
        stride,
        padding,
        dilation,
        groups,
        bias,
        mode,  # type: ignore[arg-type]
    )
    network = nn.Sequential(conv, nn.Flatten(), nn.LazyLinear(4, bias=bias), nn.ReLU(), nn.Linear(4, 2)).double()
    x = torch.rand(3, groups * inputs, 7, 6, dtype=torch.float64)
    names = [name for name, _ in network.named_parameters()] if network(x) is not None else []
    pairs = overparametrise(network, Part("two", ("0", "2")), width=width, seed=0)
    assert sum(p.numel() for p in network[0].parameters()) >= width * conv.weight.numel()
    wide = network(x)
    fold(network, pairs)
    assert network[0] is conv
    assert [name for name, _ in network.named_parameters()] == names
    assert torch.allclose(network(x), wide, atol=1e-10)


@pytest.mark.parametrize("layer", [nn.Linear(300, 80), nn.Conv2d(12, 80, 5)], ids=["linear", "conv"])
def test_a_pair_begins_with_the_variance_of_the_one_layer(layer: nn.Linear | nn.Conv2d) -> None:
    fan_in = layer.weight[0].numel()
    folded = nn.Sequential(deepcopy(layer))
    fold(folded, overparametrise(folded, Part("layer", ("0",)), width=4, seed=0))
    weight = folded.get_parameter("0.weight")
    assert weight.var().item() == pytest.approx(1 / (3 * fan_in), rel=0.05)
    # With a ReLU between them the answers have the second moment that those of the layer have.
    wide = nn.Sequential(deepcopy(layer))
    overparametrise(wide, Part("layer", ("0",)), width=4, between="relu", seed=0)
    x = torch.randn(500, *((300,) if isinstance(layer, nn.Linear) else (12, 5, 5)))
    with torch.no_grad():
        assert wide(x).var().item() == pytest.approx(1 / 3, rel=0.1)


def test_t3_gives_the_old_shape_back_where_it_can(data: Data) -> None:
    model = resnet()
    given = problem(model, PARTS["block"], data)
    linear = Overparametrisation(width=3)(given, seed=0).model
    assert str(linear.module) == str(model.module)
    assert linear.card == model.card
    relu = Overparametrisation(width=3, between="relu")(given, seed=0).model
    assert isinstance(relu.module.get_submodule("section2.block1.residual.conv1.conv.1"), nn.ReLU)
    assert relu.card.architecture is None
    for name, parameter in model.module.named_parameters():
        if not name.startswith("section2.block1"):
            assert relu.module.get_parameter(name).shape == parameter.shape


def test_t3_replaces_a_layer_wherever_it_stands() -> None:
    shared = nn.Linear(4, 4)
    network = nn.Sequential(shared, nn.ReLU(), shared)
    overparametrise(network, Part("shared", ("0",)), seed=0)
    assert network[0] is network[2]
    assert isinstance(network[0], nn.Sequential)


def test_t3_takes_layers_that_only_begin_otherwise() -> None:
    network = atari_actor_critic(4)
    overparametrise(network, Part("two", ("conv1", "linear")), seed=0)
    assert isinstance(network.conv1, nn.Sequential)
    assert isinstance(network.linear, nn.Sequential)
    assert network(torch.zeros(1, 4, 84, 84, dtype=torch.uint8))[0].shape == (1, 4)


def test_t3_leaves_the_layer_of_attention_alone() -> None:
    with pytest.raises(InputError, match="nothing to over-parametrise"):
        overparametrise(nn.MultiheadAttention(4, 2), Part("output", ("out_proj",)), seed=0)


@pytest.mark.parametrize(
    "part",
    [Part("norm", ("conv1.norm",)), Part("share", ("conv1",), share=0.5), Part("half", ("logits.weight",))],
    ids=lambda part: part.name,
)
def test_t3_says_where_there_is_nothing_to_over_parametrise(part: Part, data: Data) -> None:
    with pytest.raises(InputError, match="nothing to over-parametrise"):
        Overparametrisation()(problem(resnet(), part, data), seed=0)


def test_t4_is_t1_from_other_weights(data: Data) -> None:
    given = problem(resnet(), PARTS["block"], data)
    procedures: list[Procedure] = [JointTraining(), Initialisation(scheme="caffe"), Initialisation(scheme="orthogonal")]
    for one, two in pairwise(procedures):
        assert one(given, seed=0).model.fingerprint() != two(given, seed=0).model.fingerprint()
    name = "section2.block1.residual.conv1.conv.weight"
    weight = given.initial_model(0, "orthogonal").module.get_parameter(name).flatten(1)
    assert torch.allclose(weight @ weight.T, torch.eye(len(weight)), atol=1e-5)


def test_names_are_distinct_and_impossible_parameters_are_errors() -> None:
    assert [procedure.name for procedure in PROCEDURES] == ["T1", "T2", "T3 linear 2x", "T3 relu 2x", "T4 msra"]
    assert len({procedure.title for procedure in PROCEDURES}) == 4
    wrong: list[Callable[[], Procedure]] = [
        lambda: Overparametrisation(width=0),
        lambda: Overparametrisation(between="tanh"),  # type: ignore[arg-type]
        lambda: Initialisation(scheme="own"),
    ]
    for make in wrong:
        with pytest.raises(InputError, match="must be"):
            make()
