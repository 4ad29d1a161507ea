"""Keys: which two roles share which stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations

from modelkeep.encrypt.shares.computation import PARTIES
from modelkeep.encrypt.shares.stream import Stream, derive_key, draw_key


@dataclass(frozen=True)
class Keys:
    """The keys that a role knows.

    `masks` are those that the dealer shares with each party, by the party's place. `inputs` are those from which the
    owner of an input and another party draw the other's share, by (owner, other).
    """

    masks: Mapping[int, bytes] = field(repr=False)
    inputs: Mapping[tuple[int, int], bytes] = field(repr=False)

    @classmethod
    def draw(cls) -> Keys:
        """Fresh keys from the operating system's source."""
        pairs = permutations(range(PARTIES), 2)
        return cls({place: draw_key() for place in range(PARTIES)}, {pair: draw_key() for pair in pairs})

    @classmethod
    def from_seed(cls, seed: int) -> Keys:
        """Keys that the seed determines, so that a test can repeat a run. They protect nothing."""
        secret = f"modelkeep shares {seed}".encode()
        pairs = permutations(range(PARTIES), 2)
        return cls(
            {place: derive_key(secret, f"mask {place}") for place in range(PARTIES)},
            {pair: derive_key(secret, f"input {pair}") for pair in pairs},
        )

    def of(self, place: int) -> Keys:
        """What the party at that place knows."""
        return Keys({place: self.masks[place]}, {pair: key for pair, key in self.inputs.items() if place in pair})

    @property
    def of_dealer(self) -> Keys:
        """What the dealer knows: all masks and no input."""
        return Keys(self.masks, {})

    def mask_streams(self, places: Iterable[int]) -> dict[int, Stream]:
        """New streams of masks."""
        return {place: Stream(self.masks[place]) for place in places}

    def input_streams(self) -> dict[tuple[int, int], Stream]:
        """New streams of the shares of inputs."""
        return {pair: Stream(key) for pair, key in self.inputs.items()}
