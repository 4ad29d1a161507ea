"""What a thief of parameters hears: the logits of the victim up to a constant, from nothing but its probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.extract.target import Target

Array = NDArray[np.float64]


class Unrecoverable(Exception):
    """Why the parameters cannot be had from these answers. Caught by `steal`, which says so in its result."""


class Saturated(Unrecoverable):
    """Probabilities too near to zero to take their logarithm: the query was too far out, or the answer is guarded."""


class Oracle:
    """Centred log-probabilities, log p − mean(log p): the centred logits, because softmax only adds a constant.

    Everything that all classes share is lost in a softmax, so the last layer comes back up to that, and no more.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.dtype = torch.float32  # of the answers, known after the first
        self.width = int(np.prod(target.input_shape))
        self.queries = 0
        self._x: list[Array] = []
        self._y: list[Array] = []

    def __call__(self, x: NDArray[Any], *, keep: bool = True) -> Array:
        """Centred logits (n, classes) of `x: (n, width)`; `keep` them among those that a network is fitted to."""
        asked = torch.from_numpy(np.ascontiguousarray(x)).to(self._target.dtype)
        answers = self._target.probs(asked.reshape(len(x), *self._target.input_shape)).cpu()
        self.queries += len(x)
        self.dtype, probs = answers.dtype, answers.double().numpy()
        # Below the smallest normal number of the answer's type a probability has lost its digits.
        if probs.min() < torch.finfo(self.dtype).tiny:
            raise Saturated("it answers with probabilities of (almost) exactly 0, of which no logit can be told")
        logits: Array = np.log(probs)
        logits -= logits.mean(axis=1, keepdims=True)
        if keep:
            self._x.append(asked.double().numpy())
            self._y.append(logits)
        return logits

    def heard(self) -> tuple[Array, Array]:
        """Every kept query (n, width), as it was rounded for the victim, and its centred logits (n, classes)."""
        return np.concatenate(self._x), np.concatenate(self._y)


def noise(oracle: Oracle, random: np.random.Generator, reach: float) -> float:
    """How far the answers are from linear where they must be: on segments so short that (almost) no unit bends there.

    Second differences of nine answers on each of nine short segments; the third largest is robust against a unit that
    does, and against segments on which all units are off. Relative to the size of the logits, as float errors are.
    """
    starts = random.standard_normal((9, oracle.width))
    starts *= reach / 2 / np.linalg.norm(starts, axis=1, keepdims=True)
    steps = random.standard_normal((9, oracle.width))
    steps *= 1e-6 * reach / np.linalg.norm(steps, axis=1, keepdims=True)
    answers = oracle((starts[:, None] + np.arange(9)[:, None] * steps[:, None]).reshape(81, -1)).reshape(9, 9, -1)
    bends = np.abs(np.diff(answers, n=2, axis=1)).max(axis=(1, 2))
    relative = np.sort(bends / (1 + np.abs(answers).max(axis=(1, 2))))
    return max(float(relative[-3]), 2 * torch.finfo(oracle.dtype).eps)
