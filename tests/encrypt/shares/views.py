"""Views: what two parties of three see of a program, and two tests whether that depends on the secret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from torch import Tensor

from modelkeep.encrypt.shares.channel import MemoryChannel
from modelkeep.encrypt.shares.computation import Computation, Shared
from modelkeep.encrypt.shares.dealer import Dealer
from modelkeep.encrypt.shares.parties import LAST, Parties
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.encrypt.shares.stream import Stream, draw_key

Program = Callable[[Computation, Sequence[Shared]], object]
"""Runs on shared inputs."""


class Wiretap(MemoryChannel):
    """Keeps all that crosses."""

    def __init__(self) -> None:
        super().__init__()
        self.crossed: list[Tensor] = []

    def gather(self, words: Tensor) -> Tensor:
        self.crossed.append(words.clone())
        return super().gather(words)


class Known(Stream):
    """A stream whose draws are known: `make(place, number, count)` gives the words of each draw."""

    def __init__(self, place: int, make: Callable[[int, int, int], Tensor], seen: list[Tensor]) -> None:
        self._place, self._make, self._seen, self._number = place, make, seen, 0

    def fill(self, room: memoryview, size: int) -> None:
        words = self._make(self._place, self._number, size // 8)
        self._number += 1
        self._seen.append(words)
        room[:size] = words.contiguous().numpy().tobytes()


def view(
    program: Program,
    secrets: Sequence[int],
    pair: tuple[int, int],
    ring: ShareRing,
    make: Callable[[int, int, int], Tensor],
    shares: Sequence[Tensor],
) -> list[Tensor]:
    """The words that a pair of parties sees where its shares of every input are `shares`, one pair per input."""
    seen: dict[int, list[Tensor]] = {0: [], 1: [], 2: []}
    count = shares[0].shape[1]
    third = ({0, 1, 2} - set(pair)).pop()
    inputs = []
    for secret, held in zip(secrets, shares, strict=True):
        words = torch.empty((3, count), dtype=torch.int64)
        words[list(pair)] = held
        words[third] = secret - held.sum(dim=0)
        inputs.append(Shared(ring.reduce(words), ring.fraction, ring))
    channel = Wiretap()
    dealer = Dealer(ring, {place: Known(place, make, []) for place in range(3)})
    parties = Parties(ring, range(3), channel, {place: Known(place, make, seen[place]) for place in range(3)}, {})
    program(dealer, [Shared(words.words[:0], words.fraction, ring) for words in inputs])
    channel.deal(dealer.end_pass())
    parties.begin_pass()
    if LAST in pair:
        seen[LAST].extend(parties._dealt.view(-1, count))
    program(parties, inputs)
    crossed = [part for rows in channel.crossed for part in rows[third].view(-1, count)]
    return [ring.reduce(words) for place in pair for words in seen[place]] + crossed


def enumerate_randomness(program: Program, secrets: Sequence[int], pair: tuple[int, int], ring: ShareRing) -> Tensor:
    """The view under each possible randomness, as sorted numbers: the exact distribution of what the pair sees."""
    places: dict[tuple[int, int], int] = {}
    index = torch.zeros(1, dtype=torch.int64)

    def make(place: int, number: int, count: int) -> Tensor:
        at = places.setdefault((place, number), len(places))
        return (index >> (ring.bits * at)) & ((1 << ring.bits) - 1)

    held = [torch.tensor([[1], [0]]) for _ in secrets]
    view(program, secrets, pair, ring, make, held)  # how much randomness there is
    index = torch.arange(1 << (ring.bits * len(places)))
    words = view(program, secrets, pair, ring, make, [each.expand(2, len(index)) for each in held])
    code = torch.zeros_like(index)
    for word in words:
        code = (code << ring.bits) | word
    return code.sort().values


def exact_distance(program: Program, one: Sequence[int], other: Sequence[int], ring: ShareRing) -> float:
    """The largest statistical distance between what any two parties see of two secrets."""
    worst = 0.0
    for pair in combinations(range(3), 2):
        views = [enumerate_randomness(program, secrets, pair, ring) for secrets in (one, other)]
        (a, na), (b, nb) = (torch.unique_consecutive(v, return_counts=True) for v in views)
        counts = dict(zip(a.tolist(), na.tolist(), strict=True))
        for value, n in zip(b.tolist(), nb.tolist(), strict=True):
            counts[value] = counts.get(value, 0) - n
        worst = max(worst, sum(map(abs, counts.values())) / (2 * len(views[0])))
    return worst


def distinguish(
    program: Program,
    one: Sequence[int],
    other: Sequence[int],
    ring: ShareRing,
    *,
    count: int = 2048,
    make: Callable[[int, int, int], Tensor] | None = None,
) -> float:
    """The largest z-score by which a bit of a word, or of a sum or difference of two words, tells two secrets apart."""
    worst = 0.0
    for pair in combinations(range(3), 2):
        bits = []
        for secrets in (one, other):
            held = [torch.zeros((2, count), dtype=torch.int64) for _ in secrets]  # the third's share is the secret
            words = view(program, secrets, pair, ring, make or real_streams(), held)
            seen = torch.stack(words[-16:])  # the messages come last; all pairs of hundreds of words would take long
            left, right = torch.triu_indices(len(seen), len(seen), 1)
            features = torch.cat([seen, seen[left] - seen[right], seen[left] ^ seen[right], seen[left] + seen[right]])
            places = [0, 1, ring.top // 2, ring.top - 1, ring.top]
            bits.append(torch.stack([((features >> place) & 1).double().mean(dim=1) for place in places]))
        z = (bits[0] - bits[1]).abs() * (2 * count) ** 0.5
        worst = max(worst, float(z.max()))
    return worst


def real_streams() -> Callable[[int, int, int], Tensor]:
    """Draws as the protocol makes them: a fresh key for each place, the same words for the dealer and the party."""
    keys = [draw_key() for _ in range(3)]
    drawn: dict[tuple[int, int], Tensor] = {}
    streams = [Stream(key) for key in keys]

    def make(place: int, number: int, count: int) -> Tensor:
        if (place, number) not in drawn:
            drawn[place, number] = streams[place].words((count,))
        return drawn[place, number]

    return make
