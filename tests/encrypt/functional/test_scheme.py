"""Decryption is the inner product, for the right key and an untouched ciphertext alone."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encrypt.functional.test_group import TOY
from modelkeep.core.errors import InputError
from modelkeep.encrypt.functional.group import standard_group
from modelkeep.encrypt.functional.scheme import Ciphertext, FunctionKey, MasterKey, decrypt, require_elements

PAIRS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=6)


@settings(deadline=None, max_examples=50)
@given(PAIRS)
def test_a_key_opens_its_inner_product(pairs: list[tuple[int, int]]) -> None:
    master = MasterKey(TOY, len(pairs))
    sealed = master.public_key().encrypt([x for x, _ in pairs])
    key = master.derive([y for _, y in pairs])
    assert decrypt(TOY, key, sealed, 3000) == sum(x * y for x, y in pairs)


def test_in_the_standard_group() -> None:
    master = MasterKey(standard_group(), 2)
    public = master.public_key()
    sealed, again = public.encrypt([9, 4]), public.encrypt([9, 4])
    assert decrypt(master.group, master.derive([3, -5]), sealed, 100) == 7
    assert sealed != again
    require_elements(master.group, sealed)


def test_a_wrong_key_a_tampered_ciphertext_and_a_small_bound_give_an_error() -> None:
    master, other = MasterKey(TOY, 2), MasterKey(TOY, 2)
    sealed, key = master.public_key().encrypt([9, 4]), master.derive([3, -5])
    with pytest.raises(InputError, match="belongs to another authority"):
        decrypt(TOY, other.derive([3, -5]), sealed, 100)
    with pytest.raises(InputError, match="was changed"):
        decrypt(TOY, key, replace(sealed, first=sealed.first * 16 % TOY.prime), 100)
    with pytest.raises(InputError, match="bound is too small"):
        decrypt(TOY, key, sealed, 6)
    with pytest.raises(InputError, match="is for 2 inputs"):
        decrypt(TOY, key, Ciphertext(4, (4,)), 6)
    with pytest.raises(InputError, match="Number 1 of the ciphertext"):
        require_elements(TOY, replace(sealed, rest=(TOY.prime - sealed.rest[0], sealed.rest[1])))


def test_a_key_cannot_be_turned_into_one_for_another_function() -> None:
    """A key for y with another function's weights opens nothing; only multiples of y follow from it."""
    master = MasterKey(TOY, 2)
    sealed, key = master.public_key().encrypt([9, 4]), master.derive([3, -5])
    with pytest.raises(InputError, match="does not lie"):
        decrypt(TOY, FunctionKey((1, 0), key.exponent), sealed, 100)
    assert decrypt(TOY, FunctionKey((6, -10), 2 * key.exponent), sealed, 100) == 14


def test_secrets_are_not_shown_or_copied() -> None:
    master = MasterKey(TOY, 2)
    shown = repr(master) + repr(master.derive([1, 2]))
    assert not any(str(secret) in shown for secret in (*master._exponents, master.derive([1, 2]).exponent))
    for leave in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not copied"):
            leave(master)


def test_wrong_lengths_are_refused() -> None:
    master = MasterKey(TOY, 2)
    with pytest.raises(InputError, match="encrypts 2 integers"):
        master.public_key().encrypt([1])
    with pytest.raises(InputError, match="vectors of 2"):
        master.derive([1, 2, 3])
