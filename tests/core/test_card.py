"""The card refuses what no classifier has, and the preprocessing is the normalisation that it says it is."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.card import Card, Preprocessing, class_names
from modelkeep.core.errors import InputError


def test_class_names() -> None:
    assert class_names(["cat", "dog"]) == ("cat", "dog")
    assert class_names(3) == ("0", "1", "2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ("a",)}, "two or more classes"),
        ({"classes": ("a", "a")}, "different names"),
        ({"bounds": (1.0, 0.0)}, "low < high"),
        ({"bounds": (0.0, math.nan)}, "finite"),
        ({"bounds": (0.0, math.inf)}, "finite"),
        ({"input_shape": ()}, "one or more sizes"),
        ({"input_shape": (3, 0)}, "at least 1"),
    ],
)
def test_card_refuses(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Card(**{"input_shape": (2,), "classes": ("a", "b"), **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mean", "std"), [((0.5,), ()), ((0.5,), (0.0,)), ((0.5,), (-1.0,)), ((0.5,), (math.nan,)), ((math.inf,), (1.0,))]
)
def test_preprocessing_refuses(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="positive std per mean"):
        Preprocessing(mean, std)


def test_preprocessing_needs_one_mean_per_channel() -> None:
    with pytest.raises(InputError, match=r"2 means.*3 channels"):
        Preprocessing((0.1, 0.2), (1.0, 1.0)).module((3, 4, 4))


def test_no_preprocessing_is_a_copy() -> None:
    x = torch.rand(2, 3, 4, 4)
    copy = Preprocessing().module((3, 4, 4))(x)
    assert torch.equal(copy, x)
    assert copy.data_ptr() != x.data_ptr()


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(0.01, 2)), min_size=3, max_size=3),
    st.sampled_from([(3,), (3, 5), (3, 4, 5)]),
)
def test_preprocessing_is_hand_normalisation(numbers: list[tuple[float, float]], shape: tuple[int, ...]) -> None:
    mean, std = zip(*numbers, strict=True)
    x = torch.rand(4, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    normalised = Preprocessing(mean, std).module(shape)(x)
    for channel in range(3):
        assert torch.equal(normalised[:, channel], (x[:, channel] - mean[channel]) / std[channel])


def test_one_mean_serves_all_channels() -> None:
    x = torch.rand(2, 3, 4, dtype=torch.float64)
    assert torch.equal(Preprocessing((0.5,), (0.25,)).module((3, 4))(x), (x - 0.5) / 0.25)
