"""The axes of a value are followed through the operations that networks are made of, and else they are unknown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from modelkeep.core.slices.axes import FollowAxes, summarise, tell_axes, told_axes
from modelkeep.zoo.architectures.minmax import MinMax


def followed(run: Callable[[torch.Tensor], torch.Tensor]) -> list[str] | None:
    x = torch.rand(2, 3, 8, 4)
    follow = FollowAxes()
    follow.begin(x)
    with torch.no_grad(), follow:
        value = run(x)
    found = summarise(follow.axes_of(value))
    return None if found is None else [f"{factor.name} {factor.size}" for factor in found]


@pytest.mark.parametrize(
    ("run", "axes"),
    [
        (lambda x: x.relu() + 1, "channel 3, row 8, column 4"),
        (lambda x: functional.conv2d(x, torch.rand(5, 3, 2, 2), stride=2), "channel 5, row 4, column 2"),
        (lambda x: functional.max_pool2d(x, 2), "channel 3, row 4, column 2"),
        (lambda x: x.permute(0, 2, 3, 1), "row 8, column 4, channel 3"),
        (lambda x: functional.linear(x.permute(0, 2, 3, 1), torch.rand(6, 3)), "row 8, column 4, channel 6"),
        (lambda x: x.flatten(2).transpose(1, 2), "token 32, channel 3"),
        (lambda x: functional.layer_norm(x.flatten(2).mT, (3,)).softmax(dim=1), "token 32, channel 3"),
        (lambda x: x.flatten(2).mT.reshape(2, 8, 4, 3), "row 8, column 4, channel 3"),
        (lambda x: torch.cat([torch.zeros(2, 1, 3), x.flatten(2).mT], dim=1), "token 33, channel 3"),
        (lambda x: x.mean(dim=(2, 3)), "channel 3"),
        (lambda x: functional.adaptive_avg_pool2d(x, 1), "channel 3, row 1, column 1"),
        (lambda x: x[:, :, 0], "channel 3, column 4"),
        (lambda x: MinMax()(functional.conv2d(x, torch.rand(6, 3, 1, 1))), "channel 6, row 8, column 4"),
    ],
)
def test_what_networks_do(run: Callable[[torch.Tensor], torch.Tensor], axes: str) -> None:
    assert followed(run) == axes.split(", ")


def test_heads_are_joined_to_channels_again() -> None:
    def attention(x: torch.Tensor) -> torch.Tensor:
        z = functional.linear(x.flatten(2).mT, torch.rand(12, 3))
        q = z.view(2, 32, 3, 4).transpose(1, 2)
        return functional.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(2, 32, 12)

    assert followed(attention) == ["token 32", "channel 12"]


@pytest.mark.parametrize(
    "run", [lambda x: x.flatten(1)[:, torch.arange(96).flip(0)].view(2, 3, 8, 4), lambda x: x.flatten(1)]
)
def test_what_is_not_known_is_not_guessed(run: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert followed(run) is None


def test_what_was_said_is_kept_by_network_and_place() -> None:
    one, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    tell_axes(one, "here", ("row", "channel"))
    assert told_axes(one, "here") == ("row", "channel")
    assert told_axes(one, "there") is None
    assert told_axes(other, "here") is None
