"""Comparison: whether shared numbers are below zero, and no more of them (as in Mohassel2018, with a dealer).

The parties open c = z + r for a uniform r. The sign of z = c - r needs the borrow of that subtraction, of a public and
a secret number: bitwise, on exclusive-or shares of r, in a tree of depth log2(bits) (Kogge and Stone's). Each word
carries all bits of one number, so a level is two ands of whole words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import Tensor

from modelkeep.encrypt.shares.computation import Shared
from modelkeep.encrypt.shares.ring import ShareRing

if TYPE_CHECKING:
    from modelkeep.encrypt.shares.dealer import Dealer
    from modelkeep.encrypt.shares.parties import Parties


def compare_with_zero(parties: Parties, secret: Shared) -> Shared:
    """1 where z < 0, else 0, in shares of fraction 0. Rounds: 2 + log2(bits)."""
    ring, shape = parties.ring, secret.shape
    (c,) = parties.open(secret.words + parties.draw(shape))
    r = parties.dealt(shape)
    generates = r & ~c  # a borrow arises where c has 0 and r has 1 ...
    propagates = r ^ parties.first_only(ring.reduce(~c))  # ... and passes on where they are equal: ~(c ^ r)
    for by in _levels(ring):
        p_mask, g_mask = parties.draw(shape), parties.draw(shape)
        p, g = parties.open(propagates ^ p_mask, generates ^ g_mask, xor=True)
        both, over = parties.dealt(shape), parties.dealt(shape)
        shifted = _and(parties, p, p_mask, ring.shift_left(g, by), ring.shift_left(g_mask, by))
        generates = generates ^ shifted ^ over
        propagates = _and(parties, p, p_mask, ring.shift_left(p, by), ring.shift_left(p_mask, by)) ^ both
    sign = r ^ parties.first_only(c) ^ ring.shift_left(generates, 1)
    coin_word = parties.draw(shape)
    (opened,) = parties.open(ring.shift_right(sign ^ coin_word, ring.top), xor=True)
    coin = parties.dealt(shape)
    words = coin * (1 - 2 * opened) + parties.first_only(opened)
    return Shared(ring.reduce(words), 0, ring)


def deal_comparison(dealer: Dealer, shape: tuple[int, ...]) -> None:
    """What `compare_with_zero` needs, in its order."""
    ring = dealer.ring
    dealer.deal(dealer.draw(shape), xor=True)
    for by in _levels(ring):
        p_mask, g_mask = dealer.draw(shape, xor=True), dealer.draw(shape, xor=True)
        dealer.deal(p_mask & ring.shift_left(p_mask, by), xor=True)
        dealer.deal(p_mask & ring.shift_left(g_mask, by), xor=True)
    dealer.deal(ring.shift_right(dealer.draw(shape, xor=True), ring.top))


def _and(parties: Parties, x: Tensor, x_mask: Tensor, y: Tensor, y_mask: Tensor) -> Tensor:
    """The opened part of a product of bits; the dealt share of the masks' product comes to it."""
    return parties.first_only(x & y) ^ (x & y_mask) ^ (x_mask & y)


def _levels(ring: ShareRing) -> Iterator[int]:
    """The distances over which borrows are joined: 1, 2, 4, … below the number of bits."""
    by = 1
    while by < ring.bits:
        yield by
        by *= 2
