"""Sums, products and truncation on shares against plain arithmetic; what goes wrong is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from modelkeep.core.errors import InputError, WireError
from modelkeep.encrypt.shares.computation import Computation, Shared
from modelkeep.encrypt.shares.keys import Keys
from modelkeep.encrypt.shares.local import Local
from modelkeep.encrypt.shares.ring import ShareRing

ULP = 2.0**-20


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2), st.integers(0, 2), st.integers(0, 9))
def test_products_are_those_of_plain_matrices(m: int, k: int, n: int, one: int, other: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(m, k, generator=generator), torch.randn(k, n, generator=generator)

    def program(c: Computation) -> Tensor | None:
        masked_x, masked_y = c.mask(c.share(one, x.shape, x), c.share(other, y.shape, y))
        (product,) = c.truncate(c.matmul(masked_x, masked_y))
        return c.reveal(product, to=other)

    found = Local(ShareRing(), Keys.draw()).run(program)
    assert found is not None
    assert float((found - x.double() @ y.double()).abs().max()) <= 2 * ULP * (1 + float(x.abs().sum() + y.abs().sum()))


def test_a_transposed_product_needs_no_new_mask() -> None:
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    here = Local(ShareRing(), Keys.draw())

    def program(c: Computation) -> Tensor | None:
        masked_x, masked_y = c.mask(c.share(0, x.shape, x), c.share(1, y.shape, y))
        return c.reveal(c.matmul(masked_x.T, masked_y), to=0)

    torch.testing.assert_close(here.run(program), x.T.double() @ y.double(), atol=1e-5, rtol=0)
    assert here.traffic.rounds == 2
    assert here.traffic.opened == 6 * 8 * (x.numel() + y.numel())
    assert (here.traffic.revealed, here.traffic.dealt) == (2 * 8 * 6, 8 * 6)


def _truncate_words(ring: ShareRing, words: Tensor, by: int) -> Tensor:
    """Truncate given words (the first party has them, the others zero): the sum of the resulting shares."""
    here = Local(ring, Keys.draw())

    def program(c: Computation) -> Shared:
        shares = c.share(0, words.shape, torch.zeros(words.shape))
        rows = torch.cat([words[None], torch.zeros((2, *words.shape), dtype=torch.int64)])
        secret = replace(shares, words=shares.words + rows[: len(shares.words)], fraction=ring.fraction + by)
        return c.truncate(secret)[0]

    return ring.reduce(here.run(program).words.sum(dim=0))


@pytest.mark.parametrize("by", [1, 20, 31])
def test_truncation_rounds_down_or_up_and_never_fails_up_to_its_bound(by: int) -> None:
    bound = 2**62 - 1
    words = torch.randint(-bound, bound, (200_000,))
    words[:6] = torch.tensor([bound, -bound - 1, 0, -1, 1, bound - 1])
    off = _truncate_words(ShareRing(), words, by) - (words >> by)
    assert set(off.tolist()) == {0, 1}


def test_truncation_is_right_on_average() -> None:
    """It rounds up with the probability of what it cuts off: without bias."""
    words = torch.full((100_000,), 3 << 18)  # 0.75 of the last place that stays
    up = float(_truncate_words(ShareRing(), words, 20).double().mean())
    assert abs(up - 0.75) < 0.01


def test_truncation_beyond_its_bound_goes_wrong() -> None:
    """The bound is where the documentation has it: the test above could fail."""
    words = torch.full((1000,), 2**62 + 2**61)
    assert bool(((_truncate_words(ShareRing(), words, 20) - (words >> 20)).abs() > 1).any())


def test_what_cannot_be_shared_is_refused() -> None:
    here = Local(ShareRing(), Keys.draw())
    for value in (float("nan"), float("inf"), 2.0**42):
        with pytest.raises(InputError, match="finite numbers below"):
            here.parties.share(0, (1,), torch.tensor([value]))
    with pytest.raises(InputError, match=r"shares an input of shape \(2,\). Got \(1,\)"):
        here.parties.share(0, (2,), torch.zeros(1))
    whole = here.parties.share(0, (1,), torch.zeros(1))
    with pytest.raises(InputError, match="same fraction"):
        _ = whole + whole.divide(1)


def test_a_dealer_that_runs_another_program_is_refused() -> None:
    def one(c: Computation) -> None:
        c.square(*c.mask(c.share(0, (3,), torch.zeros(3))))
        here.parties.end_pass()

    for words, message in ((2, "needs 3"), (4, "1 words that no step")):
        here = Local(ShareRing(), Keys.draw())
        here.channel.deal(torch.zeros(words, dtype=torch.int64))
        here.parties.begin_pass()
        with pytest.raises(WireError, match=message):
            one(here.parties)


def test_fresh_keys_differ_and_a_seed_repeats() -> None:
    def shares(keys: Keys) -> Tensor:
        return Local(ShareRing(), keys).parties.share(0, (4,), torch.ones(4)).words

    assert not torch.equal(shares(Keys.draw()), shares(Keys.draw()))
    assert torch.equal(shares(Keys.from_seed(3)), shares(Keys.from_seed(3)))
    assert len({*Keys.from_seed(3).masks.values(), *Keys.from_seed(3).inputs.values()}) == 9
    assert Keys.draw().of_dealer.inputs == {}
    assert set(Keys.draw().of(1).inputs) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert repr(Keys.draw()) == "Keys()"
