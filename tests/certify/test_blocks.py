"""Blocks are the affine stretches of a network, and each way to bound one is above its true norm."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from certify.networks import NORMS, ORDER, Net, drawn, model_of
from modelkeep.certify import block_bounds
from modelkeep.certify.block_bounds import block_matrix, block_norm
from modelkeep.certify.blocks import AffineBlock, Graph
from modelkeep.certify.interpreter import Tensors
from modelkeep.certify.kernels import as_kernel
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.norms import Norm

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def traced(module: nn.Module, *shape: int, classes: int) -> tuple[Graph, dict[str, torch.Tensor]]:
    model = model_of(module, *shape, classes=classes)
    return Graph(trace_operations(model)), {name: t.detach().double() for name, t in tensors_of(model.module).items()}


def brute_norm(block: AffineBlock, tensors: Tensors, norm: Norm) -> float:
    """The norm of the matrix, which is found column by column."""
    units = torch.eye(block.inputs, dtype=torch.float64).view(-1, *block.shape)
    return float(torch.linalg.matrix_norm(block.apply_linear(units, tensors).flatten(1).T, ord=ORDER[norm]))


def test_affine_operations_are_one_block() -> None:
    module = nn.Sequential(
        Net(lambda s, x: x + s.norm(s.inner(x)), inner=nn.Conv2d(2, 2, 3, padding=1), norm=nn.BatchNorm2d(2)),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 3),
    ).eval()
    graph, _ = traced(module, 2, 4, 4, classes=3)
    assert [(block.source, str(block)) for block in graph.blocks] == [
        ("input", "0.inner + 0.norm + add"),
        ("1", "2 + 4"),
    ]


def test_sums_of_different_sources_begin_anew() -> None:
    module = Net(lambda s, x: s.last(x + s.inner(x).relu()), inner=nn.Linear(2, 2), last=nn.Linear(2, 2))
    graph, tensors = traced(module, 2, classes=2)
    assert [(block.source, block.name) for block in graph.blocks] == [("input", "inner"), ("add", "last")]
    gains = graph.gains("l2", lambda block: block_norm(block, tensors, "l2"), 1.0)
    assert gains["add"] == pytest.approx(1 + float(torch.linalg.matrix_norm(tensors["inner.weight"], ord=2)))


@pytest.mark.parametrize(("norm", "expected"), [("l2", 5.0), ("linf", 4.0), ("l1", 7.0)], ids=NORMS)
def test_concatenations_of_different_sources(norm: Norm, expected: float) -> None:
    module = Net(lambda s, x: torch.cat([(3 * x).relu(), (-4 * x).tanh()], 1).abs())
    graph, tensors = traced(module, 2, classes=4)
    gains = graph.gains(norm, lambda block: block_norm(block, tensors, norm), 1.0)
    assert gains[graph.operations[-1].name] == pytest.approx(expected)


@pytest.mark.parametrize("small", [True, False], ids=["exact", "beyond_exact"])
@pytest.mark.parametrize("seed", range(30))
def test_bounds_of_random_affine_blocks(seed: int, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decomposed as a whole; and as a block too large for that is bounded, as one kernel or operation by operation."""
    if not small:
        monkeypatch.setattr(block_bounds, "EXACT", 0)
    model = drawn(seed, ("none", "none", "relu"))
    graph = Graph(trace_operations(model))
    tensors = {name: t.detach().double() for name, t in tensors_of(model.module).items()}
    for block in graph.blocks:
        for norm in NORMS:
            true, bound = brute_norm(block, tensors, norm), block_norm(block, tensors, norm)
            assert bound >= true * (1 - 1e-13)
            if small and len(block.operations) > 1:
                assert bound <= true * (1 + 1e-6) + 1e-12


def residual(convolution: nn.Module, factor: float) -> nn.Module:
    norm = nn.BatchNorm2d(4)
    nn.init.uniform_(norm.weight, -2, 2)
    return Net(
        lambda s, x: factor * x - s.norm(s.mix(x * s.scale)), mix=convolution, norm=norm, scale=torch.rand(4, 1, 1)
    )


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_residual_convolution_is_one_kernel(dilation: int, groups: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(dilation + groups)
        convolution = nn.Conv2d(4, 4, (3, 5), padding=(dilation, 2 * dilation), dilation=dilation, groups=groups)
        module = nn.Sequential(residual(convolution, 1.3).eval(), nn.Flatten())
    graph, tensors = traced(module, 4, 6, 7, classes=168)
    whole = graph.block(graph.operations[-2].name)
    assert whole is not None
    kernel = as_kernel(whole, tensors)
    assert kernel is not None
    stride, padding, _, _ = kernel.windows(whole.shape, whole.operations[-1].shape)
    x = torch.randn(2, 4, 6, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    padded = nn.functional.pad(x, [side for pair in reversed(padding) for side in pair])
    torch.testing.assert_close(
        nn.functional.conv2d(padded, kernel.weight, stride=stride), whole.apply_linear(x, tensors)
    )


@torch.no_grad()
def test_a_block_and_its_transpose_are_adjoint() -> None:
    for seed in range(20):
        model = drawn(seed, ("none",))
        tensors = {name: t.detach().double() for name, t in tensors_of(model.module).items()}
        for block in Graph(trace_operations(model)).blocks:
            generator = torch.Generator().manual_seed(seed)
            v = torch.randn(1, *block.shape, dtype=torch.float64, generator=generator)
            u = torch.randn(1, *block.operations[-1].shape, dtype=torch.float64, generator=generator)
            there, back = (block.apply_linear(v, tensors) * u).sum(), (block.apply_transpose(u, tensors) * v).sum()
            assert math.isclose(float(there), float(back), rel_tol=1e-9, abs_tol=1e-9)
            matrix = block_matrix(block, tensors)
            torch.testing.assert_close(matrix @ v.flatten(), block.apply_linear(v, tensors).flatten())
