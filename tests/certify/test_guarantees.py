"""Guarantees against a plain transcription of algorithms 7.1 and 7.2, and against perturbed linear models."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.certify.certification import Certify
from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard, parse_guarantee, with_bottom
from modelkeep.core.errors import InputError
from modelkeep.core.method import command_of, python_of

CLASSES = ("bag", "boot", "coat", "dress", "shirt")
GROUPS = ((0,), (1, 2), (1, 3), (2, 3, 4))
AFFINITY = Affinity.of_indices(GROUPS, CLASSES)
GUARANTEES = (Standard(), RelaxedTopK(2), RelaxedTopK(3), AFFINITY)


@pytest.mark.parametrize("text", ["standard", "top-2", "affinity:cat+dog,car"])
def test_the_notation_of_a_guarantee_is_read_back(text: str) -> None:
    guarantee = parse_guarantee(text, ("car", "cat", "dog"))
    assert guarantee.notation == text
    assert parse_guarantee(guarantee.notation, ("car", "cat", "dog")) == guarantee
    certify = Certify(radius=0.3, guarantee=guarantee)
    assert command_of(certify) == ("--radius 0.3" if text == "standard" else f"--radius 0.3 --guarantee {text}")
    assert eval(python_of(certify)) == certify


def top(logits: list[float], k: int) -> set[int]:
    """F^k: the classes whose logit is at least the k-th highest."""
    threshold = sorted(logits, reverse=True)[k - 1]
    return {i for i, value in enumerate(logits) if value >= threshold}


def margin_of(logits: list[float], cost: list[list[float]], chosen: set[int]) -> float:
    """m^k: lines 5 to 12 of algorithm 7.1."""
    outside = set(range(len(logits))) - chosen
    each = [logits[j] - max((logits[i] + cost[j][i] for i in outside), default=-math.inf) for j in chosen]
    return min(each)


def accepted(guarantee: Guarantee, logits: list[float]) -> Iterable[int]:
    """Line 3 of algorithm 7.1; lines 3 to 8 of algorithm 7.2."""
    for k in range(1, guarantee.largest + 1):
        groups = [range(len(logits))] if guarantee is not AFFINITY else GROUPS
        if any(top(logits, k) <= set(group) for group in groups):
            yield k


def random_case(seed: int, n: int = 6, m: int = 5, *, ties: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and a cost as a network has: symmetric, 0 on the diagonal."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, m, generator=generator, dtype=torch.float64) * 2
    cost = torch.rand(m, m, generator=generator, dtype=torch.float64) * 0.8
    cost = (cost + cost.T) * (1 - torch.eye(m))
    return (logits.round() if ties else logits), cost


guarantees = pytest.mark.parametrize("guarantee", GUARANTEES, ids=["standard", "rt2", "rt3", "affinity"])
seeds = st.integers(0, 2**31 - 1)


@guarantees
@given(seed=seeds)
def test_margins_and_sets_are_those_of_the_algorithms(guarantee: Guarantee, seed: int) -> None:
    logits, cost = random_case(seed)
    margin = guarantee.margin(logits, cost)
    loosest, tightest = guarantee.sets(logits, cost), guarantee.smallest_sets(logits, cost)
    for row, values in enumerate(logits.tolist()):
        slow = {k: margin_of(values, cost.tolist(), top(values, k)) for k in accepted(guarantee, values)}
        assert margin[row] == pytest.approx(max(slow.values()))
        certified = [k for k, value in slow.items() if value > 0]
        expected = [top(values, max(certified)), top(values, min(certified))] if certified else [set(), set()]
        assert [set(mask[row].nonzero().flatten().tolist()) for mask in (loosest, tightest)] == expected


@guarantees
@given(seed=seeds)
def test_the_verified_are_certified_and_have_their_label_in_the_loosest_set(guarantee: Guarantee, seed: int) -> None:
    logits, cost = random_case(seed)
    y = torch.arange(len(logits)) % 5
    for row, values in enumerate(logits.tolist()):
        accept = list(accepted(guarantee, values))
        certified = [k for k in accept if margin_of(values, cost.tolist(), top(values, k)) > 0]
        verified = bool(certified) and int(y[row]) in top(values, max(certified))
        above = {i for i, value in enumerate(values) if value >= values[int(y[row])]}
        assert guarantee.verified(logits, cost, y)[row] == verified
        assert guarantee.accurate(logits, y)[row] == (len(above) in accept)


@guarantees
@given(seed=seeds)
def test_what_is_verified_is_accurate(guarantee: Guarantee, seed: int) -> None:
    logits, cost = random_case(seed, n=30)
    y = torch.arange(30) % 5
    assert (guarantee.verified(logits, cost, y) <= guarantee.accurate(logits, y)).all()


@guarantees
@given(seed=seeds)
def test_with_ties_at_the_edge_of_a_set_it_is_not_certified(guarantee: Guarantee, seed: int) -> None:
    logits, cost = random_case(seed, ties=True)
    certified = guarantee.certified(logits, cost * 0)  # even when nothing can be lost
    for row, values in enumerate(logits.tolist()):
        for k in range(1, certified.shape[1] + 1):
            assert not (certified[row, k - 1] and len(top(values, k)) != k)


@guarantees
@settings(max_examples=15)
@given(seed=seeds)
def test_the_radius_is_where_bisection_finds_the_margin_to_vanish(guarantee: Guarantee, seed: int) -> None:
    logits, rate = random_case(seed)
    rate, fixed = rate + 0.05, torch.rand(6, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    radius = guarantee.radius(logits, rate, fixed)
    low, high = torch.zeros(6, dtype=torch.float64), torch.full((6,), 512.0, dtype=torch.float64)
    for _ in range(50):
        middle = (low + high) / 2
        holds = guarantee.margin(logits, middle[:, None, None] * rate + fixed) > 0
        low, high = torch.where(holds, middle, low), torch.where(holds, high, middle)
    torch.testing.assert_close(radius, low)


def test_standard_is_equation_6_2() -> None:
    logits, cost = random_case(0, n=50)
    predicted = logits.argmax(dim=1)
    others = (logits + cost[predicted]).scatter(1, predicted[:, None], -torch.inf)
    net = with_bottom(logits, Standard().margin(logits, cost))
    torch.testing.assert_close(net[:, -1], others.amax(dim=1))
    assert torch.equal(net[:, :-1], logits)


@given(seed=seeds)
def test_more_classes_are_a_weaker_promise(seed: int) -> None:
    logits, rate = random_case(seed)
    radii = [RelaxedTopK(k).radius(logits, rate, 0.1) for k in (1, 2, 3, 4)]
    assert torch.equal(radii[0], Standard().radius(logits, rate, 0.1))
    assert all((looser >= tighter).all() for tighter, looser in pairwise(radii))
    alone = Affinity.of_indices([(i,) for i in range(5)], 5)
    assert torch.equal(alone.radius(logits, rate), Standard().radius(logits, rate))
    assert torch.equal(alone.margin(logits, rate), RelaxedTopK(1).margin(logits, rate))
    assert (AFFINITY.radius(logits, rate) <= RelaxedTopK(3).radius(logits, rate)).all()


def test_a_set_of_all_classes_cannot_be_left() -> None:
    logits, cost = random_case(0)
    everything = Affinity([CLASSES], CLASSES)
    for guarantee in (everything, RelaxedTopK(5), RelaxedTopK(9)):
        assert guarantee.radius(logits, cost).isinf().all()
        assert guarantee.sets(logits, cost * 1e9).all()
        assert guarantee.verified(logits, cost * 1e9, torch.zeros(6, dtype=torch.int64)).all()
        assert with_bottom(logits, guarantee.margin(logits, cost)).argmax(dim=1).lt(5).all()


def test_where_logits_differ_by_a_constant_the_radius_is_infinite_or_zero() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    assert Standard().radius(logits, torch.zeros(3, 3)).tolist() == [math.inf, 0.0]


def test_figure_7_1() -> None:
    """(a) top-1 robust but not top-2 robust, so that top-2 robustness is no relaxation; (b) both."""
    logits = torch.tensor([[3.0, 1.0, 0.8], [3.0, 1.9, 0.2]])
    cost = 1.0 * (1 - torch.eye(3))
    assert RelaxedTopK(2).certified(logits, cost).tolist() == [[True, False], [True, True]]
    assert RelaxedTopK(2).sets(logits, cost).tolist() == [[True, False, False], [True, True, False]]
    assert RelaxedTopK(2).smallest_sets(logits, cost).tolist() == [[True, False, False]] * 2


@guarantees
def test_on_linear_models_no_perturbation_below_the_radius_leaves_the_set(guarantee: Guarantee) -> None:
    """Theorems 7.1 and 7.2, also in the worst direction of each pair: the constants of linear models are exact."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    x = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    rate = torch.cdist(weight, weight)
    radius = guarantee.radius(x @ weight.T, rate)
    assert (radius > 0).all()
    named = guarantee.sets(x @ weight.T, radius[:, None, None] * (1 - 1e-9) * rate)
    assert named.any(dim=1).all()
    toward = (weight[None] - weight[:, None]).reshape(-1, 3)  # every pair's steepest direction
    directions = torch.cat([toward[toward.norm(dim=1) > 0], torch.randn(50, 3, generator=generator).double()])
    nearest = torch.full((len(x),), math.inf, dtype=torch.float64)
    for direction in directions / directions.norm(dim=1, keepdim=True):
        moved = (x + (1 - 1e-6) * radius[:, None] * direction) @ weight.T
        inside, outside = moved.masked_fill(~named, math.inf), moved.masked_fill(named, -math.inf)
        gap = inside.amin(dim=1) - outside.amax(dim=1)
        assert (gap > 0).all()
        nearest = torch.minimum(nearest, gap)
    assert (nearest < 1e-4).all()  # and the radius cannot be made larger


def test_the_gradient_of_bottom_goes_through_the_margin_only() -> None:
    logits = torch.tensor([[3.0, 2.5, 0.0]], requires_grad=True)
    cost = (1 - torch.eye(3)).requires_grad_()
    bottom = with_bottom(logits, Standard().margin(logits, cost))[0, -1]
    by_logits, by_cost = torch.autograd.grad(bottom, (logits, cost))
    assert by_logits.tolist() == [[-1.0, 1.0, 0.0]]  # -∂m: nothing of ∂max f
    assert by_cost.tolist() == [[0.0, 1.0, 0.0], [0.0] * 3, [0.0] * 3]
    equation_6_2 = with_bottom(logits, Standard().margin(logits, cost), through_top=True)[0, -1]
    assert torch.autograd.grad(equation_6_2, logits)[0].tolist() == [[0.0, 1.0, 0.0]]


@guarantees
def test_gradients_of_the_margin_are_those_of_finite_differences(guarantee: Guarantee) -> None:
    logits, cost = random_case(3, n=3)
    logits, cost = logits.requires_grad_(), cost.requires_grad_()
    assert torch.autograd.gradcheck(guarantee.margin, (logits, cost))


@guarantees
def test_a_cost_per_example_is_used_per_example(guarantee: Guarantee) -> None:
    logits, cost = random_case(4)
    factors = torch.linspace(0, 2, 6, dtype=torch.float64)
    together = guarantee.margin(logits, factors[:, None, None] * cost)
    alone = [guarantee.margin(logits[i : i + 1], factors[i] * cost) for i in range(6)]
    assert torch.equal(together, torch.cat(alone))


def test_bottom_wins_exactly_where_nothing_is_certified_whatever_the_rounding() -> None:
    logits = torch.tensor([[1e8, 0.0]] * 4)
    margin = torch.tensor([1e-3, -1e-3, 0.0, 1.0])  # all far below one unit in the last place of 1e8
    assert with_bottom(logits, margin).argmax(dim=1).tolist() == [0, 2, 2, 0]


def test_float32_logits_meet_float64_constants_in_float64() -> None:
    logits = torch.tensor([[1.0, 0.9]])
    cost = torch.tensor([[0.0, 1e-9], [1e-9, 0.0]], dtype=torch.float64)
    exact = logits[0, 0].double() - logits[0, 1].double() - 1e-9
    assert Standard().margin(logits, cost).item() == exact.item()


def test_affinity_sets_are_checked() -> None:
    with pytest.raises(InputError, match=r"no class 'coats'\. Did you mean 'coat'"):
        Affinity([("coats",)], CLASSES)
    with pytest.raises(InputError, match=r"Not in any: boot, dress, shirt"):
        Affinity([("bag", "coat")], CLASSES)
    with pytest.raises(InputError, match="not one name"):
        Affinity(["bag"], CLASSES)
    with pytest.raises(InputError, match=r"labels in 0\.\.4"):
        Affinity.of_indices([range(6)], CLASSES)
    with pytest.raises(InputError, match="5 classes, the logits of 3"):
        AFFINITY.margin(torch.zeros(2, 3), torch.zeros(3, 3))


def test_parameters_are_checked() -> None:
    with pytest.raises(InputError, match=r"'k' parameter of RelaxedTopK.*Got 0"):
        RelaxedTopK(0)
    with pytest.raises(InputError, match=r"shape \(3, 3\).*Got \(2, 2\)"):
        Standard().margin(torch.zeros(2, 3), torch.zeros(2, 2))


def test_guarantees_are_values() -> None:
    assert [guarantee.name for guarantee in GUARANTEES] == ["standard", "RT2", "RT3", "affinity"]
    assert Affinity.of_indices(GROUPS, CLASSES) == AFFINITY
    assert len({*GUARANTEES, Standard(), Affinity.of_indices(GROUPS, CLASSES)}) == 4
