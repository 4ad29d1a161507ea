"""What every network promises: logits, a graph that can be traced, the same weights for the same seed."""

from __future__ import annotations

import copy
import json
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import fx, nn
from torch.nn import functional

from modelkeep.core.errors import InputError
from modelkeep.zoo import architectures

# Each factory at least once, with images as small as it takes where the paper's are large.
CASES: list[tuple[str, dict[str, Any]]] = [
    ("alexnet", {"input_shape": [3, 195, 195], "classes": 7, "size": "small"}),
    ("cnn_2c2f", {"input_shape": [1, 28, 28], "classes": 10}),
    ("cnn_2c2f", {"input_shape": [3, 29, 31], "classes": 10, "activation": "relu"}),
    ("cnn_4c3f", {"input_shape": [1, 28, 28], "classes": 10}),
    ("cnn_6c2f", {"input_shape": [3, 32, 32], "classes": 10}),
    ("cnn_8c2f", {"input_shape": [3, 32, 32], "classes": 200}),
    ("cnn_8c2f_full", {"input_shape": [3, 32, 32], "classes": 200, "activation": "relu"}),
    ("deep_cnn", {"input_shape": [1, 28, 28], "classes": 10}),
    ("dense", {"input_shape": [30], "classes": 2}),
    ("dense", {"input_shape": [1, 8, 8], "classes": 3, "hidden": [16, 8], "activation": "minmax"}),
    ("efficientnet_lite0", {"input_shape": [3, 33, 48], "classes": 5}),
    ("lenet", {"input_shape": [3, 32, 32], "classes": 100}),
    ("resnet50", {"input_shape": [3, 64, 64], "classes": 10}),
    ("resnet50_v1", {"input_shape": [3, 64, 64], "classes": 10}),
    ("shallow_cnn", {"input_shape": [1, 28, 28], "classes": 10}),
    ("small_alexnet", {"input_shape": [1, 28, 28], "classes": 10, "width": 8}),
    ("small_alexnet", {"input_shape": [3, 32, 32], "classes": 10}),
    ("small_cnn", {"input_shape": [1, 8, 8], "classes": 10}),
    ("small_cnn", {"input_shape": [3, 5, 9], "classes": 2}),
    ("small_liresnet", {"input_shape": [1, 8, 8], "classes": 10, "blocks": 2, "width": 8, "hidden": 16}),
    ("small_resnet", {"input_shape": [1, 28, 28], "classes": 10, "blocks": 1}),
    ("small_resnet", {"input_shape": [3, 32, 32], "classes": 10, "width": 8, "stride": 2}),
    ("vgg16_bn", {"input_shape": [3, 32, 32], "classes": 10, "hidden": [32]}),
]
each_network = pytest.mark.parametrize(("name", "arguments"), CASES, ids=[f"{n}-{a['input_shape']}" for n, a in CASES])


def build(name: str, arguments: dict[str, Any]) -> nn.Module:
    """Built as a model's card builds it: by name, from arguments that went through JSON."""
    torch.manual_seed(0)
    factory = getattr(import_module("modelkeep.zoo.architectures"), name)
    module: nn.Module = factory(**json.loads(json.dumps(arguments)))
    return module.eval()


def noise(arguments: dict[str, Any], n: int = 2) -> torch.Tensor:
    return torch.rand(n, *arguments["input_shape"], generator=torch.Generator().manual_seed(1))


def test_every_factory_is_listed_and_tried() -> None:
    assert set(architectures.names()) == {name for name, _ in CASES}
    for_texts = {"minilm", "text_lstm", "text_transformer"}  # tried in test_text.py and test_minilm.py
    assert {"MinMax", "names", *for_texts, *architectures.names()} == set(architectures.__all__)


@each_network
def test_contract(name: str, arguments: dict[str, Any]) -> None:
    network, x = build(name, arguments), noise(arguments)
    state = copy.deepcopy(network.state_dict())
    random_state = torch.get_rng_state()

    logits = network(x)
    assert logits.shape == (2, arguments["classes"])
    assert torch.isfinite(logits).all()
    assert not torch.allclose(logits[0], logits[1], rtol=0, atol=1e-7), "the logits do not depend on the input"

    # Eval mode is pure: the same answer again, no random number drawn, no buffer changed.
    assert torch.equal(network(x), logits)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(torch.equal(tensor, state[key]) for key, tensor in network.state_dict().items())

    # It traces, and the trace gives the same logits.
    assert torch.equal(fx.symbolic_trace(network)(x), logits)

    # The same seed gives the same weights.
    again = build(name, arguments).state_dict()
    assert all(torch.equal(tensor, again[key]) for key, tensor in state.items())

    # Gradients reach every parameter, and no module is called twice (a slice could not tell the calls apart).
    functional.cross_entropy(logits, torch.arange(2)).backward()  # type: ignore[no-untyped-call]
    unreached = [key for key, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert unreached == []
    called = [node.target for node in fx.symbolic_trace(network).graph.nodes if node.op == "call_module"]
    assert len(called) == len(set(called))


@each_network
def test_train_mode_runs_where_there_is_dropout_or_batch_normalisation(name: str, arguments: dict[str, Any]) -> None:
    network = build(name, arguments).train()
    assert torch.isfinite(network(noise(arguments, n=4))).all()


def test_building_draws_only_the_weights() -> None:
    # The size of the flattened features is found without a random number: the weights of small_cnn are those of
    # its four layers made one after the other.
    torch.manual_seed(3)
    network = architectures.small_cnn((1, 8, 8), 10)
    torch.manual_seed(3)
    expected = [nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3), nn.Linear(128, 64), nn.Linear(64, 10)]
    assert all(
        torch.equal(ours, theirs)
        for ours, theirs in zip(network.parameters(), nn.ModuleList(expected).parameters(), strict=True)
    )


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@given(side=st.integers(1, 40), kernel=st.sampled_from([3, 4]), seed=st.integers(0, 99))
def test_same_padding_is_tensorflows(side: int, kernel: int, seed: int) -> None:
    from modelkeep.zoo.architectures.certifiable import _same

    for stride in (1, 2):
        before, after = _same(side, kernel, stride)
        signal = torch.randn(1, 1, side, generator=torch.Generator().manual_seed(seed))
        weight = torch.randn(1, 1, kernel, generator=torch.Generator().manual_seed(seed + 1))
        ours = functional.conv1d(functional.pad(signal, (before, after)), weight, stride=stride)
        assert ours.shape[-1] == -(-side // stride)
        assert 0 <= after - before <= 1
        if stride == 1:  # where torch knows SAME too
            assert torch.allclose(ours, functional.conv1d(signal, weight, padding="same"), atol=1e-5)


def test_odd_images_are_padded_below_and_right() -> None:
    torch.manual_seed(0)
    network = architectures.cnn_2c2f((1, 7, 8), 3)
    assert [name for name, _ in network.named_children()][:2] == ["conv1_pad", "conv1"]
    x = torch.rand(1, 1, 7, 8)
    conv = network.get_submodule("conv1")
    assert isinstance(conv, nn.Conv2d)
    made = conv(network.get_submodule("conv1_pad")(x))
    assert torch.allclose(
        made, functional.conv2d(functional.pad(x, (1, 1, 1, 2)), conv.weight, conv.bias, stride=2), atol=1e-6
    )


def test_alexnets_scale_stays_one_and_its_shift_is_learned() -> None:
    torch.manual_seed(0)
    network = architectures.alexnet((3, 195, 195), 2, size="small").train()
    norm = network.get_submodule("conv1.norm")
    assert isinstance(norm, nn.BatchNorm2d)
    norm.reset_parameters()  # as model completion does
    assert torch.equal(norm.weight, torch.ones(48))
    assert [name for name, _ in norm.named_parameters()] == ["bias"]
    with torch.no_grad():
        norm.bias.fill_(3.0)
        made = norm(torch.randn(8, 48, 5, 5))
    assert torch.allclose(made.mean(dim=(0, 2, 3)), torch.full((48,), 3.0), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("small_cnn", {"input_shape": [1, 3, 3]}, "too small for small_cnn"),
        ("alexnet", {"input_shape": [3, 194, 194]}, "too small for alexnet"),
        ("vgg16_bn", {"input_shape": [1, 28, 28]}, "too small for vgg16_bn"),
        ("small_cnn", {"input_shape": [8, 8]}, "'input_shape' parameter of small_cnn"),
        ("resnet50", {"input_shape": [3, 0, 32]}, "'input_shape' parameter of resnet50"),
        ("dense", {"input_shape": []}, "'input_shape' parameter of dense"),
        ("lenet", {"input_shape": [1, 28, 28], "classes": 1}, "'classes' parameter of lenet"),
        ("alexnet", {"input_shape": [3, 224, 224], "size": "huge"}, "'standard', 'large', 'small'"),
        ("cnn_2c2f", {"input_shape": [1, 28, 28], "activation": "tanh"}, "'relu' or 'minmax'"),
        ("dense", {"input_shape": [4], "hidden": [3], "activation": "minmax"}, "even width"),
        ("dense", {"input_shape": [4], "hidden": [0]}, "'hidden' parameter of dense"),
        ("small_resnet", {"input_shape": [1, 28, 28], "blocks": 0}, "'blocks' parameter of small_resnet"),
    ],
)
def test_arguments_out_of_range_are_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(name, {"classes": 10, **arguments})
