"""Norms: never below the truth, brute force on materialised matrices, and close to it where that is claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from modelkeep.certify.norms import (
    absolute_norm,
    convolution_norm,
    convolution_norms_1_inf,
    gram_iteration,
    matrix_norm,
    pool_gain,
    schur,
)
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Norm

NORMS: dict[Norm, float] = {"l2": 2, "l1": 1, "linf": np.inf}


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass(frozen=True)
class Convolution:
    weight: torch.Tensor
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    shape: tuple[int, ...]

    def arguments(self) -> tuple[Any, ...]:
        return self.weight, self.stride, self.padding, self.dilation, self.groups, self.shape

    def matrix(self) -> torch.Tensor:
        """The whole matrix, by torch's own convolution of every unit input."""
        units = torch.eye(math.prod(self.shape), dtype=torch.float64).reshape(-1, *self.shape)
        padded = functional.pad(units, [side for pair in reversed(self.padding) for side in pair])
        convolve = functional.conv1d if len(self.shape) == 2 else functional.conv2d
        return convolve(padded, self.weight, None, self.stride, 0, self.dilation, self.groups).flatten(1).T


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    axes, groups = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    few = st.integers(1, 3)
    pick = [st.tuples(*[few] * axes), st.tuples(*[st.tuples(*[st.integers(0, 2)] * 2)] * axes)]
    kernel, stride, dilation, padding = draw(pick[0]), draw(pick[0]), draw(pick[0]), draw(pick[1])
    spatial = tuple(
        draw(st.integers(max(1, d * (k - 1) + 1 - sum(pair)), 7))
        for k, d, pair in zip(kernel, dilation, padding, strict=True)
    )
    inputs, outputs = draw(st.integers(1, 2)), draw(few)
    weight = normal(groups * outputs, inputs, *kernel, seed=draw(st.integers(0, 99)))
    if draw(st.booleans()):
        weight = weight.abs()  # whose largest gain is at frequency 0
    return Convolution(weight, stride, padding, dilation, groups, (groups * inputs, *spatial))


@settings(max_examples=150, deadline=None)
@given(convolutions())
def test_bounds_of_convolutions_are_never_below_the_truth(convolution: Convolution) -> None:
    matrix = convolution.matrix().numpy()
    assert convolution_norm(*convolution.arguments()) >= np.linalg.norm(matrix, 2)
    for bound, order in zip(convolution_norms_1_inf(*convolution.arguments()), (1, np.inf), strict=True):
        truth = np.linalg.norm(matrix, order)
        assert truth <= bound <= truth * (1 + 1e-10)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"), [(3, 1, 1, 1), (4, 2, 1, 1), (5, 3, 2, 1), (3, 1, 2, 2)]
)
def test_bound_of_a_convolution_is_tight_on_larger_images(
    kernel: int, stride: int, padding: int, dilation: int
) -> None:
    pairs = ((padding, padding),) * 2
    case = Convolution(normal(4, 3, kernel, kernel), (stride,) * 2, pairs, (dilation,) * 2, 1, (3, 20, 20))
    truth = np.linalg.norm(case.matrix().numpy(), 2)
    assert truth <= convolution_norm(*case.arguments()) <= 1.03 * truth


def test_a_convolution_on_a_circle_of_its_own_size_would_not_be_sound() -> None:
    """Why the torus is larger than the image: a tap that wraps around adds to another and can cancel it."""
    case = Convolution(torch.tensor([[[1.0, 0.0, -1.0]]]).double(), (1,), ((1, 1),), (1,), 1, (1, 2))
    assert np.linalg.norm(case.matrix().numpy(), 2) == pytest.approx(1.0)  # on a circle of 2: |e^iw - e^-iw| = 0
    assert convolution_norm(*case.arguments()) >= 1


def test_a_strided_convolution_is_not_charged_for_the_outputs_that_it_leaves_out() -> None:
    """A patch embedding is a dense layer per patch; its stride-1 bound would be 4 times larger."""
    weight = torch.ones(1, 1, 4, 4)
    assert convolution_norm(weight, (4, 4), ((0, 0),) * 2, (1, 1), 1, (1, 16, 16)) == pytest.approx(4)
    assert convolution_norm(weight, (1, 1), ((0, 0),) * 2, (1, 1), 1, (1, 64, 64)) > 15


def test_counterexamples_on_which_power_iteration_from_ones_reports_zero() -> None:
    matrix = torch.tensor([[3.0, -3.0], [1.0, -1.0]]) * 3.3 / math.sqrt(20)
    assert (matrix.sum(dim=1) == 0).all()
    assert matrix_norm(matrix, "l2") == pytest.approx(3.3)
    laplacian = torch.tensor([[[[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]]])
    unpadded = Convolution(laplacian.double(), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 32, 32))
    truth = np.linalg.norm(unpadded.matrix().numpy(), 2)
    assert truth <= convolution_norm(*unpadded.arguments()) <= 8 + 1e-9
    assert truth == pytest.approx(8, rel=0.01)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from([1e-300, 1e-9, 1.0, 1e150]), st.integers(0, 99))
def test_norms_of_matrices(rows: int, columns: int, scale: float, seed: int) -> None:
    matrix = normal(rows, columns, seed=seed) * scale
    for norm, order in NORMS.items():
        truth = np.linalg.norm(matrix.numpy(), order)
        assert truth <= matrix_norm(matrix, norm) <= truth * (1 + 1e-10)
    absolute = np.linalg.norm(matrix.abs().numpy(), 2)
    assert absolute <= absolute_norm(matrix)
    assert absolute <= schur(matrix_norm(matrix, "l1"), matrix_norm(matrix, "linf"))


def test_gram_iteration_is_an_upper_bound_at_every_step_and_falls_to_the_norm() -> None:
    matrices = torch.stack([torch.complex(normal(20, 30, seed=i), normal(20, 30, seed=i + 9)) for i in range(3)])
    truth = torch.linalg.matrix_norm(matrices, 2)
    bounds = torch.stack([gram_iteration(matrices, t) for t in range(12)])
    assert (bounds >= truth).all()
    assert (bounds[1:] <= bounds[:-1] * (1 + 1e-12)).all()
    assert torch.allclose(bounds[0], torch.linalg.matrix_norm(matrices), rtol=1e-10)  # Frobenius
    assert torch.allclose(bounds[-1], truth, rtol=1e-3)


def test_large_matrices_are_bounded_by_gram_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = normal(60, 80)
    exact = matrix_norm(matrix, "l2")
    monkeypatch.setattr("modelkeep.certify.norms._EXACT", 50)
    assert exact <= matrix_norm(matrix, "l2") * (1 + 1e-12) <= exact * 1.01
    assert matrix_norm(matrix, "l2") != exact


def test_chunks_of_frequencies_do_not_change_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Convolution(normal(4, 3, 3, 3), (1, 1), ((1, 1), (0, 2)), (1, 1), 1, (3, 9, 8))
    whole = convolution_norm(*case.arguments())
    monkeypatch.setattr("modelkeep.certify.norms._NUMBERS", 40)
    assert convolution_norm(*case.arguments()) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_nothing_has_the_norm_zero_and_nan_has_none(norm: Norm) -> None:
    assert 0 <= matrix_norm(torch.zeros(3, 2), norm) < 1e-300
    with pytest.raises(InputError, match="NaN"):
        matrix_norm(torch.tensor([[math.nan]]), norm)


def test_convolutions_of_zeros_and_of_nan() -> None:
    arguments = ((1, 1), ((1, 1), (1, 1)), (1, 1), 1, (1, 4, 4))
    assert convolution_norm(torch.zeros(2, 1, 3, 3), *arguments) == 0
    for bound in (convolution_norm, convolution_norms_1_inf):
        with pytest.raises(InputError, match="NaN"):
            bound(torch.full((2, 1, 3, 3), math.inf), *arguments)
        with pytest.raises(InputError, match="does not fit"):
            bound(torch.zeros(2, 1, 9, 9), *arguments)


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_gain_of_a_pool_is_what_a_single_spike_reaches(kernel: int, stride: int, dilation: int) -> None:
    spikes = torch.eye(40)[:, None]
    moved = functional.max_pool1d(spikes, kernel, stride, 0, dilation).flatten(1)
    for norm, order in NORMS.items():
        reached = torch.linalg.vector_norm(moved, order, dim=1).max()
        assert pool_gain((kernel,), (stride,), (dilation,), norm) == pytest.approx(float(reached))


def test_gain_of_a_pool_of_two_dimensions() -> None:
    spikes = torch.eye(81).reshape(81, 1, 9, 9)
    moved = functional.max_pool2d(spikes, (3, 2), (1, 2)).flatten(1)
    assert pool_gain((3, 2), (1, 2), (1, 1), "l2") == pytest.approx(float(moved.norm(dim=1).max()))
