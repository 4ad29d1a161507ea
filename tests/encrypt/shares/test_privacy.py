"""No two parties of three learn anything: exactly, by going through all randomness, and by distinguishers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from encrypt.shares.views import Program, distinguish, exact_distance, real_streams
from modelkeep.encrypt.shares.computation import Computation, Masked, Shared
from modelkeep.encrypt.shares.ring import ShareRing

SMALL = ShareRing(bits=2, fraction=0)
OBVIOUS = 6.0  # standard deviations; of some 20,000 features none exceeds it by chance once in 10,000 runs


def square(c: Computation, inputs: Sequence[Shared]) -> Shared:
    return c.square(*c.mask(inputs[0]))


def multiply(c: Computation, inputs: Sequence[Shared]) -> Shared:
    return c.multiply(*c.mask(*inputs))


def truncate(c: Computation, inputs: Sequence[Shared]) -> Shared:
    return c.truncate(replace(inputs[0], fraction=inputs[0].fraction + 1))[0]


def compare(c: Computation, inputs: Sequence[Shared]) -> Shared:
    return c.negative(inputs[0])


def whole_layer(c: Computation, inputs: Sequence[Shared]) -> Shared:
    (z,) = c.truncate(c.multiply(*c.mask(*inputs)))
    return c.negative(c.truncate(c.square(*c.mask(z)))[0])


@pytest.mark.parametrize(("program", "inputs"), [(square, 1), (multiply, 2), (truncate, 1)])
def test_any_two_views_have_the_same_distribution_for_every_secret(program: Program, inputs: int) -> None:
    for secret in range(1, 4):
        assert exact_distance(program, [0] * inputs, [secret, *range(inputs - 1)], SMALL) == 0.0


@pytest.mark.parametrize(("program", "inputs"), [(compare, 1), (whole_layer, 2)])
def test_no_distinguisher_tells_two_secrets_apart(program: Program, inputs: int) -> None:
    ring = ShareRing()
    assert distinguish(program, [0] * inputs, [int(2**20 * -1.5), 7][:inputs], ring) < OBVIOUS


def same_mask_twice(c: Computation, inputs: Sequence[Shared]) -> Shared:
    """A planted leak: the second secret is opened with the mask of the first."""
    (x,) = c.mask(inputs[0])
    if hasattr(c, "open"):
        (opened,) = c.open(inputs[1].words - x.mask)
        return c.multiply(x, Masked(opened, x.mask, x.fraction))
    return c.multiply(x, x)


def test_a_mask_that_is_used_twice_is_found() -> None:
    assert exact_distance(same_mask_twice, [0, 0], [0, 1], SMALL) == 1.0
    assert distinguish(same_mask_twice, [0, 0], [0, 2**40], ShareRing()) > OBVIOUS


def test_masks_of_a_biased_generator_are_found() -> None:
    fair = real_streams()

    def biased(place: int, number: int, count: int) -> Tensor:
        return fair(place, number, count) & ((1 << 62) - 1)  # the two top bits are never set

    assert distinguish(square, [0], [2**61], ShareRing(), make=biased) > OBVIOUS


def test_a_mask_that_is_too_short_is_found() -> None:
    fair = real_streams()

    def short(place: int, number: int, count: int) -> Tensor:
        return fair(place, number, count) & ((1 << 40) - 1)

    assert distinguish(truncate, [0], [2**50], ShareRing(), make=short) > OBVIOUS


def test_shares_hide_their_words_in_every_print() -> None:
    shared = Shared(torch.full((3, 2), 123456789), 20, ShareRing())
    assert "123456789" not in repr(shared)
    assert "123456789" not in repr(Masked(shared.words[0], shared.words, 20))
