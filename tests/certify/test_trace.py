"""What the trace writes down is what the network computes; everything else is refused, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from certify.networks import Net, drawn, exactly, model_of
from modelkeep import Model
from modelkeep.certify.constants import lipschitz
from modelkeep.certify.interpreter import run
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import ModelError

# torch says that it copies its input; it computes the right thing all the same.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def linear(width: int = 4) -> nn.Linear:
    return nn.Linear(width, 4)


def net(function: Callable[[Any, torch.Tensor], torch.Tensor], **parts: Any) -> nn.Module:
    """A network of a first and a second dense layer, and whatever stands in between."""
    return Net(function, first=linear(), second=linear(), **parts)


def ours(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The logits by the operations that were written down, in float64."""
    written = trace_operations(model)
    return run(written, x.double(), tensors_of(model.module))[written[-1].name]


ACCEPTED: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "functions": (
        net(lambda s, x: functional.linear(functional.relu(s.first(x)), s.second.weight, s.second.bias)),
        (4,),
    ),
    "shared": (net(lambda s, x: s.second(s.first(s.first(x).relu()).tanh())), (4,)),
    "in_place": (nn.Sequential(linear(), nn.ReLU(inplace=True), linear()), (4,)),
    "augmented": (net(lambda s, x: s.second(s.first(x).add_(x).relu_())), (4,)),
    "negative": (net(lambda s, x: 1 - s.second(-3 * s.first(x) / 7)), (4,)),
    "alpha": (net(lambda s, x: torch.sub(s.second(x), x, alpha=2.5)), (4,)),
    "buffer": (net(lambda s, x: s.second(x * s.scale - s.scale), scale=torch.randn(4)), (4,)),
    "parameter": (net(lambda s, x: s.second(s.scale * x + s.scale), scale=nn.Parameter(torch.randn(4))), (4,)),
    "sizes": (net(lambda s, x: s.second(x.view(x.size(0), -1) / x.shape[1])), (2, 2)),
    "dropout": (net(lambda s, x: s.second(functional.dropout(s.drop(x), 0.5, s.training)), drop=nn.Dropout()), (4,)),
    "convolution": (
        nn.Sequential(nn.Conv2d(2, 4, (2, 3), padding="same", dilation=(2, 1), groups=2), nn.Flatten(), linear(64)),
        (2, 4, 4),
    ),
    "functional_convolution": (
        Net(
            lambda s, x: functional.conv1d(x, s.w, stride=2, padding=1, dilation=2).flatten(1),
            w=nn.Parameter(torch.randn(2, 1, 2)),
        ),
        (1, 4),
    ),
    "pools": (
        nn.Sequential(
            nn.MaxPool2d(3, 1, padding=1),
            nn.AvgPool2d((2, 1), 1, padding=(1, 0)),
            nn.AdaptiveMaxPool2d((5, 2)),
            nn.AdaptiveAvgPool2d((1, 2)),
            nn.Flatten(),
        ),
        (2, 4, 4),
    ),
    "functional_pools": (
        net(lambda s, x: s.second(functional.avg_pool2d(functional.max_pool2d(x, 2, 1), 2, 1).flatten(1))),
        (1, 4, 4),
    ),
    "moved": (
        Net(
            lambda s, x: torch.cat([s.down(x), s.pad(x).permute(0, 2, 3, 1)], 1).mean((2, 3)),
            down=nn.PixelUnshuffle(2),
            pad=nn.ZeroPad2d((-1, -1, 0, 0)),
        ),
        (2, 4, 4),
    ),
    "batch_norm": (nn.Sequential(nn.BatchNorm1d(4), linear(), nn.BatchNorm1d(4, affine=False)), (4,)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_operations_compute_what_the_network_computes(name: str) -> None:
    module, shape = ACCEPTED[name]
    model = model_of(module, *shape, classes=module.eval()(torch.zeros(2, *shape)).shape[1])
    x = 3 * torch.randn(5, *shape, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(model, x), exactly(model)(x.double()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(25))
def test_operations_of_random_networks(seed: int) -> None:
    model = drawn(seed)
    x = 3 * torch.randn(5, *model.input_shape, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(ours(model, x), exactly(model)(x.double()), rtol=1e-9, atol=1e-9)


def test_preprocessing_is_an_operation() -> None:
    model = model_of(
        nn.Sequential(nn.Flatten(), linear(8)), 2, 2, 2, classes=4, preprocessing=Preprocessing((0.3, -1.0), (0.1, 7.0))
    )
    x = torch.randn(5, 2, 2, 2, generator=torch.Generator().manual_seed(0))
    assert [operation.kind for operation in trace_operations(model)] == ["input", "scale", "reshape", "dense"]
    torch.testing.assert_close(ours(model, x), exactly(model)(x.double()), rtol=1e-12, atol=1e-12)


class _Triple(torch.autograd.Function):
    """The forward pass says one thing, and the gradient another."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 3 * x

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] / 10


def test_custom_autograd_counts_by_its_forward_pass() -> None:
    model = model_of(net(lambda s, x: _Triple.apply(s.first(x))), 4, classes=4)  # type: ignore[no-untyped-call]
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(model, x), exactly(model)(x.double()).detach(), rtol=1e-12, atol=1e-12)


def clamped_in_place(s: Any, x: torch.Tensor) -> torch.Tensor:
    """Changes `h` through a view, and only where it is large: no comparison at small inputs shows it."""
    h = s.first(x)
    made: torch.Tensor = s.second(functional.hardtanh(h.flatten(1), -1e3, 1e3, inplace=True)) + s.second(h)
    return made


def changed_through_dropout(s: Any, x: torch.Tensor) -> torch.Tensor:
    h = s.first(x)
    made: torch.Tensor = s.second(functional.leaky_relu(s.drop(h), 0.1, True)) + s.second(h)
    return made


REFUSED: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], dict[str, Any], str]] = {
    "layer_norm": (lambda s, x: s.part(x), {"part": nn.LayerNorm(4)}, r"'part' \(LayerNorm\): there is no rule"),
    "group_norm": (lambda s, x: s.part(x), {"part": nn.GroupNorm(2, 4)}, r"'part' \(GroupNorm\)"),
    "softmax": (lambda s, x: s.first(s.first(x).softmax(1)), {}, "softmax"),
    "prelu": (lambda s, x: s.part(x), {"part": nn.PReLU()}, "PReLU"),
    "lstm": (
        lambda s, x: s.part(x.unsqueeze(1))[0].flatten(1),
        {"part": nn.LSTM(4, 4, batch_first=True)},
        r"'part' \(LSTM\)",
    ),
    "attention": (
        lambda s, x: s.part(x.unsqueeze(1), x.unsqueeze(1), x.unsqueeze(1))[0].flatten(1),
        {"part": nn.MultiheadAttention(4, 1, batch_first=True)},
        r"'part' \(MultiheadAttention\)",
    ),
    "product": (lambda s, x: s.first(x) * s.second(x), {}, "multiplies two values"),
    "square": (lambda s, x: s.first(x) ** 2, {}, "pow"),
    "quotient": (lambda s, x: s.first(x) / x, {}, "divides by a value"),
    "by_zero": (lambda s, x: s.first(x) / 0, {}, "division by zero"),
    "scaled_elu": (lambda s, x: torch.ops.aten.elu.default(s.first(x), 1.0, 1.0, 2.0), {}, "scales what it is given"),
    "own_weights": (lambda s, x: functional.linear(x, s.first.weight * 2), {}, "computed on the way"),
    "condition": (lambda s, x: x if x.sum() > 0 else -x, {}, "decides by its input"),
    "where": (lambda s, x: torch.where(x > 0, x, -2 * x), {}, "no rule"),
    "slice": (lambda s, x: s.first(x)[:, [1, 0, 2, 3]], {}, "getitem"),
    "parts": (lambda s, x: torch.cat(x.chunk(2, 1)[::-1], 1), {}, "chunk"),
    "numbers": (lambda s, x: s.first(x) * x.tolist()[0][0], {}, "tolist"),
    "compared": (lambda s, x: s.first(x) * torch.equal(x, x), {}, "equal"),
    "indices": (
        lambda s, x: s.part(x.unsqueeze(1))[0].squeeze(1),
        {"part": nn.MaxPool1d(1, return_indices=True)},
        "not a tensor",
    ),
    "batch_mean": (lambda s, x: s.first(x) - x.mean(0), {}, "mean"),
    "whole_mean": (lambda s, x: s.first(x) - x.mean(), {}, "mixes inputs"),
    "batch_size": (lambda s, x: s.first(x) * x.shape[0], {}, "size of the batch"),
    "batch_turned": (lambda s, x: x.transpose(0, 1).transpose(0, 1), {}, "mixes inputs"),
    "batch_norm": (
        lambda s, x: s.part(x),
        {"part": nn.BatchNorm1d(4, track_running_stats=False)},
        "normalises by the batch",
    ),
    "noise": (lambda s, x: s.first(x) + torch.randn(4), {}, "random numbers"),
    "dropped": (lambda s, x: s.first(functional.dropout(x, 1e-9)), {}, "at random also in eval mode"),
    "cast": (lambda s, x: s.first(x.to(torch.bfloat16).to(torch.float32)), {}, r"\(to\)"),
    "in_place_sum": (lambda s, x: x.add_(s.first(x)) + x, {}, "in place"),
    "in_place_view": (clamped_in_place, {}, "in place"),
    "in_place_dropout": (changed_through_dropout, {"drop": nn.Dropout()}, "in place"),
    "in_place_buffer": (lambda s, x: s.state.add_(s.first(x)) + x, {"state": torch.zeros(2, 4)}, "in place"),
    "spatial_constant": (
        lambda s, x: (x.view(-1, 2, 2) * s.w).flatten(1),
        {"w": torch.rand(2, 2)},
        "per channel",
    ),
    "broadcast": (lambda s, x: (x.unsqueeze(2) + x.unsqueeze(1)).mean(2), {}, "different shapes"),
    "by_keyword": (lambda s, x: torch.add(s.first(x), other=x), {}, "called in a way that has no rule"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused_by_name(name: str) -> None:
    function, parts, message = REFUSED[name]
    with pytest.raises(ModelError, match=message) as refused:
        trace_operations(model_of(net(function, **parts), 4, classes=4))
    assert "While executing" not in str(refused.value)


SPATIAL: dict[str, tuple[nn.Module, str]] = {
    "reflect": (nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), "padding_mode is 'reflect'"),
    "padding_value": (nn.ConstantPad2d(1, 0.5), "something else than zeros"),
    "ceil_mode": (nn.MaxPool2d(3, 2, ceil_mode=True), "ceil_mode"),
    "uneven": (nn.AdaptiveAvgPool2d(3), "divided evenly"),
    "only_within": (nn.AvgPool2d(3, 1, padding=1, count_include_pad=False), "count_include_pad"),
    "divisor": (nn.AvgPool2d(2, divisor_override=1), "divisor_override"),
    "transposed": (nn.ConvTranspose2d(1, 1, 3), "ConvTranspose2d"),
    "upsampled": (nn.Upsample(scale_factor=2), "Upsample"),
    "lp_pool": (nn.LPPool2d(2, 2), "LPPool2d"),
}


@pytest.mark.parametrize("name", SPATIAL)
def test_settings_without_a_rule_are_refused(name: str) -> None:
    layer, message = SPATIAL[name]
    with pytest.raises(ModelError, match=message):
        trace_operations(model_of(nn.Sequential(layer, nn.Flatten()), 1, 4, 4))


def test_softplus_with_its_own_settings_is_refused() -> None:
    with pytest.raises(ModelError, match="beta"):
        trace_operations(model_of(nn.Sequential(linear(), nn.Softplus(beta=10)), 4, classes=4))


def test_hooks_are_refused_even_where_they_change_nothing_yet() -> None:
    module = nn.Sequential(linear(), nn.ReLU(), linear())
    handle = module[1].register_forward_hook(lambda m, given, made: made.clamp(max=1e6))
    with pytest.raises(ModelError, match=r"'1' has a hook"):
        trace_operations(model_of(module, 4, classes=4))
    handle.remove()
    assert trace_operations(model_of(module, 4, classes=4))
    module.forward = lambda x: x  # type: ignore[method-assign]
    with pytest.raises(ModelError, match=r"'the module' has a hook or a forward of its own"):
        trace_operations(model_of(module, 4, classes=4))


def test_parametrised_weights_are_refused() -> None:
    fresh = nn.utils.parametrizations.spectral_norm(linear())
    with pytest.raises(ModelError, match="remove_parametrizations"):
        trace_operations(model_of(fresh, 4, classes=4))
    with pytest.raises(ModelError, match="ParametrizedLinear"):
        trace_operations(model_of(nn.Sequential(fresh), 4, classes=4))
    with warnings.catch_warnings(action="ignore"):
        old = nn.utils.weight_norm(linear())
    with pytest.raises(ModelError, match="remove_weight_norm"):
        trace_operations(model_of(nn.Sequential(old), 4, classes=4))
    torch.nn.utils.parametrize.remove_parametrizations(fresh, "weight")
    assert trace_operations(model_of(fresh, 4, classes=4))


class _Cheating(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 100


def test_a_subclass_counts_by_what_it_computes() -> None:
    model = model_of(_Cheating(4, 4), 4, classes=4)
    assert [operation.kind for operation in trace_operations(model)] == ["input", "dense", "scale"]


def test_train_mode_is_refused() -> None:
    model = model_of(nn.Sequential(linear(), nn.Dropout()), 4, classes=4)
    model.module.train()
    with pytest.raises(ModelError, match="train mode"):
        trace_operations(model)


def test_of_more_than_one_output_the_logits_are_traced() -> None:
    both = model_of(net(lambda s, x: (s.first(x), x)), 4, classes=4)  # type: ignore[arg-type, return-value]
    alone = model_of(net(lambda s, x: s.first(x)), 4, classes=4)
    assert len(trace_operations(both)) == len(trace_operations(alone))


def _exported(module: nn.Module, folder: Path) -> list[Model]:
    """The network as it comes back from a .pt2 and from an .onnx file."""
    x = torch.zeros(2, 1, 8, 8)
    exported = torch.export.export(module.eval(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(exported, folder / "network.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its older exporter
        torch.onnx.export(
            module, (x,), str(folder / "network.onnx"), dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}}
        )
    return [Model.load(folder / f"network.{ending}", input_shape=(1, 8, 8), classes=4) for ending in ("pt2", "onnx")]


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.LeakyReLU(0.3), nn.Tanh(), nn.ELU(1.5)], ids=str)
def test_exported_networks_have_the_constants_of_their_code(activation: nn.Module, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        activation,
        nn.Conv2d(4, 4, 3, padding=1, groups=2),
        activation,
        nn.MaxPool2d(3, 1),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4, 4),
    )
    own = lipschitz(model_of(module, 1, 8, 8, classes=4))
    for read in _exported(module, tmp_path):
        torch.testing.assert_close(lipschitz(read).margins, own.margins, rtol=1e-6, atol=1e-9)


def test_exported_operations_without_a_rule_are_refused_with_what_to_do(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.LayerNorm(4))
    for read in _exported(module, tmp_path):
        with pytest.raises(ModelError, match="read from a file of operations"):
            trace_operations(read)
