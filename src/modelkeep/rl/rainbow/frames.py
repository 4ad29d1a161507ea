"""Frames: the observations of a replay, each kept once and as small as it can be."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import InputError, bad_parameter

Keeping = Literal["whole", "bits", "newest frame"]
"""How an observation is kept: as it is; of zeros and ones, as bits; of a stack of frames, only the newest one."""


class Frames:
    """A ring of `length` observations for each of `count` copies.

    With "newest frame" an observation is `(frames, …)`, the newest last, and each one is the one before it moved by a
    frame, or, where an episode has begun, its first frame repeated; a stack is put together again when it is read. For
    Atari that is 7 kB for an observation in place of 28, so 7 GB for a million; MinAtar's are 50 to 125 bytes as bits.
    """

    def __init__(self, keeping: Keeping, length: int, count: int, shape: tuple[int, ...]) -> None:
        if keeping not in get_args(Keeping):
            raise bad_parameter("RainbowSettings", "keeping", f"one of {', '.join(get_args(Keeping))}", keeping)
        self.keeping, self.shape = keeping, shape
        size = math.prod(shape)
        kept = {"whole": size, "bits": -(-size // 8), "newest frame": size // shape[0]}[keeping]
        self.content = np.zeros((length, count, kept), dtype=np.uint8)
        # For stacks: how many of the frames before it belong to an observation, at most shape[0] - 1.
        self.before = np.zeros((length, count), dtype=np.uint8)

    @property
    def depth(self) -> int:
        """How many slots, up to its own, an observation is read from."""
        return self.shape[0] if self.keeping == "newest frame" else 1

    def write(self, slot: int, observations: NDArray[np.uint8], *, first: bool) -> None:
        """Put `(count, *shape)` at this slot; they are the `first`, or the slot before holds what came before them."""
        count = len(observations)
        if self.keeping == "bits":
            if observations.max() > 1:
                raise InputError(
                    f"An observation holds a byte of {observations.max()}, and only zeros and ones are kept as bits. "
                    "Set keeping='whole' in the RainbowSettings."
                )
            self.content[slot] = np.packbits(observations.reshape(count, -1), axis=1)
        elif self.keeping == "whole":
            self.content[slot] = observations.reshape(count, -1)
        else:
            self._write_newest(slot, observations, first)

    def read(self, slots: NDArray[np.int64], copies: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The observations `(n, *shape)` at these slots of these copies."""
        if self.keeping == "newest frame":
            ago = np.minimum(np.arange(self.depth - 1, -1, -1), self.before[slots, copies][:, None])
            kept: NDArray[np.uint8] = self.content[(slots[:, None] - ago) % len(self.content), copies[:, None]]
        else:
            kept = self.content[slots, copies]
        if self.keeping == "bits":
            kept = np.unpackbits(kept, axis=1, count=math.prod(self.shape))
        return kept.reshape(-1, *self.shape)

    def _write_newest(self, slot: int, observations: NDArray[np.uint8], first: bool) -> None:
        count = len(observations)
        last = self.read(np.full(count, slot - 1), np.arange(count))
        moved = (observations[:, :-1] == last[:, 1:]).reshape(count, -1).all(axis=1) & (not first)
        begun = (observations[:, :-1] == observations[:, -1:]).reshape(count, -1).all(axis=1)
        if not (moved | begun).all():
            raise InputError(
                "An observation is neither the one before it moved by a frame nor a first frame repeated, so it is "
                "no stack of frames. Set keeping='whole' in the RainbowSettings."
            )
        self.before[slot] = np.where(moved, np.minimum(self.before[slot - 1] + 1, self.depth - 1), 0)
        self.content[slot] = observations[:, -1].reshape(count, -1)
