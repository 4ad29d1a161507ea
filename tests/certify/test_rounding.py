"""What the network computes is never farther from the exact margins than the bound says: in any order, at any size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import nn

from certify.networks import ACTIVATIONS, Net, dense, drawn, exactly, model_of
from modelkeep import Model
from modelkeep.certify.constants import Lipschitz, examine, lipschitz
from modelkeep.certify.trace import trace_operations
from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import ModelError

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def margin_errors(model: Model, x: torch.Tensor) -> torch.Tensor:
    """How far the computed margins are from those in float64, (n, m, m)."""
    with torch.no_grad():
        off = model.forward(x.to(model.dtype)).double() - exactly(model)(x.double())
    return (off[:, :, None] - off[:, None]).abs()


def allowed(found: Lipschitz, x: torch.Tensor) -> torch.Tensor:
    """The bound that needs the length of the input only."""
    length = x.double().flatten(1).norm(dim=1)[:, None, None]
    limit: torch.Tensor = found.rounding_slope * length + found.rounding_offset
    return limit


def tightness(model: Model, x: torch.Tensor) -> float:
    """The largest observed error over what is allowed, after checking both bounds; at most 1."""
    found, errors = lipschitz(model), margin_errors(model, x)
    examine(model, trace_operations(model), found.rounding, x, model.forward(x.to(model.dtype)))  # refuses by itself
    assert (errors <= allowed(found, x)).all()
    return float((errors / allowed(found, x)).nan_to_num(0).max())


def inputs(model: Model, seed: int, n: int = 24) -> torch.Tensor:
    """Of lengths from tiny to huge, of both signs, of one sign, and of alternating large values that cancel."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *model.input_shape, generator=generator)
    x[: n // 4] = x[: n // 4].abs()
    x[n // 4 : n // 2] = 1000 * x[n // 4 : n // 2].sign() + x[n // 4 : n // 2]
    return x * 10 ** torch.linspace(-3, 3, n).view(-1, *(1 for _ in model.input_shape))


@pytest.mark.parametrize("seed", range(30))
def test_random_networks_round_within_the_bound(seed: int) -> None:
    model = drawn(seed)
    assert tightness(model, inputs(model, seed)) < 1


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_rounds_within_the_bound(name: str) -> None:
    """Between layers that lose nothing, so that the activation's own error is what is seen."""
    module = nn.Sequential(dense([[1.0, 0.0], [0.0, 1.0]]), ACTIVATIONS[name](), dense([[1.0, 0.0], [0.0, 1.0]]))
    x = torch.cat([torch.linspace(-30, 30, 4001), torch.logspace(-20, 3, 500), -torch.logspace(-20, 3, 500)])
    assert tightness(model_of(module, 2, classes=2), torch.stack([x, x.flip(0)], dim=1)) < 1


def test_ends_of_hardtanh_are_rounded() -> None:
    """0.1 is none of float32's numbers: the network clamps a little beside it."""
    model = model_of(nn.Hardtanh(-0.1, 0.1), 2, classes=2)
    x = torch.tensor([[5.0, 0.0]])
    assert float(margin_errors(model, x).max()) > 1e-9
    assert tightness(model, x) < 1


def test_elu_with_a_large_alpha() -> None:
    module = nn.Sequential(nn.ELU(1e4), dense([[1.0, 0.0], [0.0, 1.0]]))
    x = torch.stack([-torch.logspace(-8, 1, 500), torch.zeros(500)], dim=1)
    assert tightness(model_of(module, 2, classes=2), x) < 1


def test_the_step_of_softplus_counts_also_in_float64() -> None:
    """Above 20 torch gives x itself: 2e-9 less than log(1 + exp(x)), where float64 rounds by 4e-15."""
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Softplus()).double()
    nn.init.eye_(module[0].weight)  # type: ignore[arg-type]
    model, x = model_of(module, 2, classes=2), torch.tensor([[20.0001, 0.0]], dtype=torch.float64)
    with torch.no_grad():
        missing = x[0, 0] + torch.log1p(torch.exp(-x[0, 0])) - model.forward(x)[0, 0]
    assert 2e-9 < float(missing) < float(allowed(lipschitz(model), x)[0, 0, 1])


def test_sums_that_cancel_are_bounded_and_nearly_reach_it() -> None:
    """Ones and minus ones around a large value: the worst that a dense layer of this width can do in some order."""
    width = 1000
    weight = torch.stack([torch.ones(width), torch.zeros(width)])
    x = torch.full((64, width), 0.1)
    x[:, ::2] *= -1
    x[:, 0] += torch.linspace(1, 1e6, 64)
    x[:, -1] -= torch.linspace(1, 1e6, 64)
    assert 0 < tightness(model_of(dense(weight.tolist()), width, classes=2), x) < 1


def test_exact_arithmetic_agrees_that_float64_is_exact_enough() -> None:
    """By fractions: what we call the exact margin is that of real numbers, but for far less than the bound."""
    model = model_of(nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2)), 5, classes=2)
    x = inputs(model, seed=0, n=12)

    def layer(part: nn.Linear, given: list[Fraction]) -> list[Fraction]:
        rows, bias = part.weight.tolist(), part.bias.tolist()
        return [
            sum((Fraction(w) * v for w, v in zip(row, given, strict=True)), Fraction(b))
            for row, b in zip(rows, bias, strict=True)
        ]

    first, _, second = model.module.children()
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    limits, computed = allowed(lipschitz(model), x), model.logits(x)
    for row, answer, limit in zip(x.tolist(), computed.tolist(), limits.tolist(), strict=True):
        exact = layer(second, [max(v, Fraction(0)) for v in layer(first, [Fraction(v) for v in row])])
        assert abs(Fraction(answer[0]) - Fraction(answer[1]) - (exact[0] - exact[1])) <= Fraction(limit[0][1])


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_any_order_of_the_sums_is_within_the_bound() -> None:
    """Batch of one and of many, one thread and two, channels last, with oneDNN and without: other sums, one bound."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(1568, 10),
        )
    model = model_of(module, 3, 16, 16, classes=10)
    x = inputs(model, seed=0)
    limit, exact = allowed(lipschitz(model), x), exactly(model)(x.double())
    answers = {"plain": model.logits(x), "single": torch.cat([model.logits(one[None]) for one in x])}
    with threads(2):
        answers["two threads"] = model.logits(x)
    with warnings.catch_warnings(action="ignore"), torch.backends.mkldnn.flags(enabled=False):
        answers["without oneDNN"] = model.logits(x)
    model.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    answers["channels last"] = model.logits(x.to(memory_format=torch.channels_last))
    assert len({answer.numpy().tobytes() for answer in answers.values()}) > 1  # they do differ
    for name, answer in answers.items():
        off = (answer - exact).detach()
        assert ((off[:, :, None] - off[:, None]).abs() <= limit).all(), name


def test_preprocessing_rounds_too() -> None:
    model = model_of(
        dense([[1.0, 0.0], [0.0, 1.0]]), 2, classes=2, preprocessing=Preprocessing((1e3, -7.1), (1e-3, 0.3))
    )
    x = torch.tensor([[1e3, -7.1]]) + torch.linspace(-1, 1, 101)[:, None] * torch.tensor([1e-2, 1.0])
    assert float(margin_errors(model, x).max()) > 0
    assert tightness(model, x) < 1


@pytest.mark.parametrize("shape", [(4,), (4, 5), (4, 3, 3)], ids=["features", "sequence", "image"])
def test_batch_norm_rounds_within_the_bound_where_mean_and_bias_cancel(shape: tuple[int, ...]) -> None:
    for mean, variance, weight, bias in ((1e4, 1e-6, -30.0, 1e7), (-3.0, 0.0, 5.0, 2.0), (12345.0, 1.0, 1.0, 12345.0)):
        norm = nn.BatchNorm2d(4) if len(shape) == 3 else nn.BatchNorm1d(4)
        norm.running_mean, norm.running_var = mean + torch.arange(4) / 3, torch.full((4,), variance)
        nn.init.constant_(norm.weight, weight)
        nn.init.constant_(norm.bias, bias)
        model = model_of(nn.Sequential(norm, nn.Flatten()), *shape, classes=math.prod(shape))
        x = torch.randn(40, *shape, generator=torch.Generator().manual_seed(0))
        assert 0 < tightness(model, torch.cat([mean + x, 1e-3 * x])) < 1


def test_float64_rounds_two_thousand_million_times_finer() -> None:
    model = model_of(nn.Sequential(nn.Linear(5, 7), nn.Softplus(), nn.Linear(7, 2)), 5, classes=2)
    coarse = lipschitz(model).rounding_slope[0, 1]
    model.module.double()
    fine = lipschitz(Model(model.module, input_shape=(5,), classes=2)).rounding_slope[0, 1]
    assert 1e-4 < float(fine / coarse) * 2**29 < 1e6  # the step of torch's softplus is not of the type


def bfloat16_model(width: int) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
    return model_of(module.bfloat16(), 4, classes=2)


def test_bfloat16_is_accounted_for_where_it_is_small() -> None:
    """Also that the owner's float32 input is rounded first: a tiny step of it may be a large one for the network."""
    model = bfloat16_model(6)
    x = inputs(model, seed=0, n=48)
    x = torch.cat([x, torch.tensor([[1.0, 1.0, 1.0, 1.0]]) * torch.linspace(1, 1.02, 41)[:, None]])
    assert 1e-3 < tightness(model, x) < 1


def test_rounding_the_input_to_bfloat16_is_an_error_of_its_own() -> None:
    """A network that adds none, but for the type of its weights."""
    model = model_of(Net(lambda s, x: x.relu(), unused=nn.Parameter(torch.zeros(1).bfloat16())), 2, classes=2)
    x = torch.stack([torch.linspace(1, 1.02, 41), torch.zeros(41)], dim=1)
    assert float(margin_errors(model, x).max()) > 1e-3
    assert tightness(model, x) <= 1


def test_bfloat16_is_refused_where_it_is_wide() -> None:
    with pytest.raises(ModelError, match="so coarse a type"):
        lipschitz(bfloat16_model(256))


def test_float16_is_refused() -> None:
    with pytest.raises(ModelError, match="float16"):
        lipschitz(model_of(nn.Linear(2, 2).half(), 2, classes=2))


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_coarser_products_are_refused(precision: str) -> None:
    torch.set_float32_matmul_precision(precision)
    try:
        with pytest.raises(ModelError, match='"highest"'):
            lipschitz(model_of(nn.Linear(2, 2), 2, classes=2))
    finally:
        torch.set_float32_matmul_precision("highest")


def test_coarser_convolutions_are_refused() -> None:
    convolutions: Any = torch.backends.mkldnn.conv  # type: ignore[attr-defined]
    before, convolutions.fp32_precision = convolutions.fp32_precision, "bf16"
    try:
        with pytest.raises(ModelError, match="oneDNN"):
            lipschitz(model_of(nn.Linear(2, 2), 2, classes=2))
    finally:
        convolutions.fp32_precision = before


def hidden_autocast(s: Any, x: torch.Tensor) -> torch.Tensor:
    """No trace shows this, and float64 is left alone by it."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made: torch.Tensor = s.inner(x)
    return made


def test_autocast_is_refused_also_inside() -> None:
    model = model_of(nn.Linear(40, 2), 40, classes=2)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ModelError, match="autocast"):
        lipschitz(model)
    with pytest.raises(ModelError, match="farther from exact ones than rounding can explain"):
        lipschitz(model_of(Net(hidden_autocast, inner=nn.Linear(40, 2)), 40, classes=2))
