"""Rules of layers: norms and weighted sums equal those of the gradients taken one example at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from modelkeep.privacy.private_training import layers
from modelkeep.privacy.private_training.layers import Call, rule_for


def slow(layer: nn.Module, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, list[dict[str, torch.Tensor]]]:
    """The obvious way: a backward pass for each example."""
    found = []
    for one, slope in zip(a, b, strict=True):
        layer.zero_grad()
        layer(one[None]).backward(slope[None])
        found.append({name: p.grad.clone() for name, p in layer.named_parameters() if p.grad is not None})
    squares = [sum(float(g.double().square().sum()) for g in each.values()) for each in found]
    return torch.tensor(squares), found


def agree(layer: nn.Module, a: torch.Tensor) -> None:
    generator = torch.Generator().manual_seed(1)
    b = torch.randn(layer(a).shape, generator=generator)
    weights = torch.rand(len(a), generator=generator)
    squares, found = slow(layer, a, b)
    rule = rule_for(layer)
    assert rule is not None
    with torch.no_grad():
        part = rule(layer, [Call(a, b)])
        summed = dict(part.weigh(weights))
    torch.testing.assert_close(part.squares, squares, rtol=1e-4, atol=1e-5)
    for name, parameter in layer.named_parameters():
        expected = sum(w * each[name] for w, each in zip(weights, found, strict=True))
        torch.testing.assert_close(summed[parameter], expected, rtol=1e-4, atol=1e-5)


@given(
    n=st.integers(1, 4),
    channels=st.sampled_from([(2, 4, 1), (4, 4, 2), (3, 3, 3)]),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.sampled_from([0, 1, 2]),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
    dimensions=st.integers(1, 3),
    mode=st.sampled_from(["zeros", "circular"]),
)
@settings(max_examples=40, deadline=None)
def test_convolutions_of_any_shape(
    n: int,
    channels: tuple[int, int, int],
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
    bias: bool,
    dimensions: int,
    mode: str,
) -> None:
    torch.manual_seed(0)
    kind = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dimensions]
    layer = kind(
        *channels[:2],
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=channels[2],
        bias=bias,
        padding_mode=mode,  # type: ignore[arg-type]
    )
    agree(layer, torch.randn(n, channels[0], *(6,) * dimensions))


@pytest.mark.parametrize("shape", [(5, 6), (5, 1, 6), (5, 3, 6), (5, 20, 6), (5, 2, 3, 6)])
def test_linear_layers_at_one_or_many_positions(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    agree(nn.Linear(6, 7), torch.randn(shape))
    monkeypatch.setattr(layers, "_MOST_NUMBERS", 0)  # by products of positions, as where memory is short
    agree(nn.Linear(6, 7, bias=False), torch.randn(shape))


def test_an_embedding_adds_up_the_rows_of_a_token_that_comes_twice() -> None:
    torch.manual_seed(0)
    tokens = torch.tensor([[1, 2, 1, 0], [3, 3, 3, 3], [0, 0, 4, 1]])
    agree(nn.Embedding(5, 3), tokens)
    agree(nn.Embedding(5, 3, padding_idx=0), tokens)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.LayerNorm(6), (4, 6)),
        (nn.LayerNorm((5, 6)), (4, 3, 5, 6)),
        (nn.GroupNorm(2, 4), (3, 4, 5, 5)),
        (nn.GroupNorm(2, 4), (3, 4)),
    ],
)
def test_normalisations(layer: nn.Module, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    agree(layer, torch.randn(shape))


def test_two_calls_of_one_layer_are_one_gradient() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(3, 3)
    a, b = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    rule = rule_for(layer)
    assert rule is not None
    together = rule(layer, [Call(a[0], b[0]), Call(a[1], b[1])])
    gradients = b[0][:, :, None] * a[0][:, None] + b[1][:, :, None] * a[1][:, None]
    expected = gradients.flatten(1).square().sum(dim=1) + (b[0] + b[1]).square().sum(dim=1)
    torch.testing.assert_close(together.squares, expected)


def test_a_layer_with_another_forward_pass_has_no_rule() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    assert rule_for(nn.Linear(2, 2)) is not None
    assert rule_for(Doubled(2, 2)) is None
    assert rule_for(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))) is None
    assert rule_for(nn.Embedding(3, 2, max_norm=1.0)) is None
    assert rule_for(nn.LSTM(2, 2)) is None
