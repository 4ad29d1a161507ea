"""The standard groups against their definition in RFC 3526, and arithmetic against pow and brute force."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.encrypt.functional.group import DiscreteLog, FixedBase, Group, product_of_powers, standard_group

TOY = Group(1_099_511_627_339)


def test_the_toy_group_is_one() -> None:
    import sympy

    assert sympy.isprime(TOY.prime)
    assert sympy.isprime(TOY.order)


@pytest.mark.parametrize(("bits", "exponent", "added"), [(2048, 1918, 124476), (3072, 2942, 1690314)])
def test_the_primes_are_those_of_the_rfc(bits: int, exponent: int, added: int) -> None:
    import mpmath

    with mpmath.workprec(bits + 64):
        pi = int(mpmath.floor(mpmath.ldexp(mpmath.pi, exponent)))
    group = standard_group(bits)
    assert group.prime == (1 << bits) - (1 << (bits - 64)) - 1 + ((pi + added) << 64)
    assert pow(3, group.order - 1, group.order) == 1  # the order passes Fermat's test
    assert group.holds(group.generator)
    assert not group.holds(group.prime - 1)  # -1 is no square modulo a safe prime
    assert not group.holds(0)
    assert not group.holds(group.prime + 4)


def test_other_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="2048"):
        standard_group(512)


@given(st.integers(0, TOY.order - 1), st.integers(-(2**50), 2**50))
def test_a_fixed_base_gives_the_powers_of_pow(root: int, exponent: int) -> None:
    element = pow(4, root, TOY.prime)
    assert FixedBase(TOY, element).power(exponent) == pow(element, exponent, TOY.prime)


@given(st.lists(st.tuples(st.integers(1, TOY.order - 1), st.integers(-300, 300)), min_size=1, max_size=6))
def test_a_product_of_powers_is_that_of_pow(pairs: list[tuple[int, int]]) -> None:
    elements = tuple(pow(4, root, TOY.prime) for root, _ in pairs)
    expected = 1
    for element, (_, exponent) in zip(elements, pairs, strict=True):
        expected = expected * pow(element, exponent, TOY.prime) % TOY.prime
    assert product_of_powers(TOY, elements, tuple(exponent for _, exponent in pairs)) == expected


@settings(deadline=None)
@given(st.integers(0, 300), st.data())
def test_every_logarithm_within_the_bound_is_found_and_no_other(bound: int, data: st.DataObject) -> None:
    log = DiscreteLog(TOY, bound)
    value = data.draw(st.integers(-2 * bound - 1, 2 * bound + 1))
    element = pow(4, value, TOY.prime)
    if abs(value) <= bound:
        assert log(element) == value
    else:
        with pytest.raises(InputError, match="does not lie from"):
            log(element)
