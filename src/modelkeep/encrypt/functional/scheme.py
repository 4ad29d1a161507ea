"""Inner-product encryption (Abdalla2015, section 3): a key for y opens ⟨x, y⟩ of an encrypted x, and nothing else.

If decisional Diffie–Hellman is hard, it is secure against an adversary who names the two inputs to be told apart before
seeing the public key; CryptoNN (Xu2019) builds on it. The variant of Agrawal2016 takes that restriction away, with
keys and ciphertexts of one element more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from modelkeep.core.errors import InputError
from modelkeep.encrypt.functional.group import FixedBase, Group, discrete_log, product_of_powers


@dataclass(frozen=True)
class PublicKey:
    """What encrypts. `elements`: the generator to each secret exponent."""

    group: Group
    elements: tuple[int, ...] = field(repr=False)

    @cached_property
    def _bases(self) -> list[FixedBase]:
        return [FixedBase(self.group, each) for each in (self.group.generator, *self.elements)]

    def encrypt(self, x: Sequence[int]) -> Ciphertext:
        """Encrypt integers, one per element; two encryptions of the same integers differ."""
        if len(x) != len(self.elements):
            raise InputError(f"This key encrypts {len(self.elements)} integers. Got {len(x)}.")
        r, prime = self.group.random_exponent(), self.group.prime
        first, *rest = (base.power(r) for base in self._bases)
        plain = (self.group.power(self.group.generator, int(value)) for value in x)
        return Ciphertext(first, tuple(mask * each % prime for mask, each in zip(rest, plain, strict=True)))


@dataclass(frozen=True)
class Ciphertext:
    """g^r, and h_i^r g^(x_i) for each input."""

    first: int = field(repr=False)
    rest: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True)
class FunctionKey:
    """What opens the inner product with `weights`. The exponent is secret to those who may not learn that product."""

    weights: tuple[int, ...]
    exponent: int = field(repr=False)


class MasterKey:
    """The secret exponents. Their holder can open every ciphertext: it is the authority, and never the server."""

    def __init__(self, group: Group, length: int) -> None:
        self.group = group
        self._exponents = tuple(group.random_exponent() for _ in range(length))

    def public_key(self) -> PublicKey:
        """The key that belongs to it."""
        return PublicKey(self.group, tuple(self.group.power(self.group.generator, s) for s in self._exponents))

    def derive(self, weights: Sequence[int]) -> FunctionKey:
        """The key for the inner product with `weights`."""
        if len(weights) != len(self._exponents):
            raise InputError(f"This authority knows vectors of {len(self._exponents)} integers. Got {len(weights)}.")
        whole = tuple(int(each) for each in weights)
        return FunctionKey(whole, sum(y * s for y, s in zip(whole, self._exponents, strict=True)) % self.group.order)

    def __repr__(self) -> str:
        return f"MasterKey({self.group}, {len(self._exponents)} inputs)"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("A master key is not copied or pickled.")


def decrypt(group: Group, key: FunctionKey, ciphertext: Ciphertext, bound: int) -> int:
    """The inner product, which must lie from -`bound` to `bound`."""
    if len(ciphertext.rest) != len(key.weights):
        raise InputError(f"The key is for {len(key.weights)} inputs, and the ciphertext has {len(ciphertext.rest)}.")
    blinded = product_of_powers(group, ciphertext.rest, key.weights)
    return discrete_log(group, bound)(blinded * group.power(ciphertext.first, -key.exponent) % group.prime)


def require_elements(group: Group, ciphertext: Ciphertext) -> None:
    """Refuse a ciphertext from outside that does not consist of elements of the group."""
    for place, element in enumerate((ciphertext.first, *ciphertext.rest)):
        if not group.holds(element):
            raise InputError(f"Number {place} of the ciphertext is not an element of the group: it was changed.")
