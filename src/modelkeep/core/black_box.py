"""Black box: something that only answers, as a module without weights, gradients or places to cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from modelkeep.core.errors import AccessError, ModelError, bad_parameter

Gives = Literal["scores", "labels"]
Kind = Literal["probabilities", "logits"]
Access = Literal["weights", "scores", "labels"]
_ORDER: tuple[Access, ...] = ("labels", "scores", "weights")
_OFF = 1e-4  # how far a sum of float32 probabilities may be from 1
_FLOOR = 1e-30
"""The smallest probability of an answer: its logarithm is finite, and as float32 it is not 0."""


@dataclass(frozen=True)
class Answerer:
    """Something that answers: a function of an array `(n, *input_shape)`, and what is known about it.

    `gives` says whether an answer is a score per class or a label, and `kind` which kind of scores they are, where that
    is known. `description` is what a fingerprint is made of.
    """

    ask: Callable[[NDArray[np.float32]], Any]
    gives: Gives
    description: str
    input_shape: tuple[int, ...] | None = None
    classes: tuple[str, ...] | None = None
    kind: Kind | None = None

    def __post_init__(self) -> None:
        if self.gives not in ("scores", "labels"):
            allowed = "'scores', 'probabilities', 'logits' or 'labels'"
            raise bad_parameter("Model.answering", "gives", allowed, self.gives)


class BlackBox(nn.Module):
    """The answers of an `Answerer` as logits.

    What an answer holds its owner says, or it is found out on a probe; it holds from then on, and an answer that
    contradicts it is refused. The logit of a probability is its logarithm; other scores are taken for logits; one
    number for two classes is the second one's; a label becomes a probability of 1.
    """

    def __init__(self, answerer: Answerer, classes: int, probe: torch.Tensor) -> None:
        super().__init__()
        self.answerer = answerer
        self._classes = classes
        scores = self._ask(probe)
        self._single = scores.shape[1] == 1
        found = bool(self._are_probabilities(scores).all())
        self._probabilities = found if answerer.kind is None else answerer.kind == "probabilities"
        self._require_kind(scores)

    @property
    def gives(self) -> Gives:
        """Whether its answers are scores or labels."""
        return self.answerer.gives

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits `(n, classes)`, without gradients."""
        scores = self._ask(x)
        self._require_kind(scores)
        if self._single:
            scores = torch.cat([1 - scores if self._probabilities else torch.zeros_like(scores), scores], dim=1)
        if self._probabilities:
            scores = scores.clamp_min(_FLOOR).log()
        return scores.to(x.device, x.dtype)

    def _are_probabilities(self, scores: torch.Tensor) -> torch.Tensor:
        """Which rows can be probabilities `(n,)`: within 0 and 1, and where there is one for each class, of sum 1."""
        within = ((scores >= -_OFF) & (scores <= 1 + _OFF)).all(dim=1)
        return within if self._single else within & ((scores.sum(dim=1) - 1).abs() <= _OFF)

    def _require_kind(self, scores: torch.Tensor) -> None:
        """Refuse rows that cannot be the probabilities that they were taken for."""
        if not self._probabilities:
            return
        fits = self._are_probabilities(scores)
        if not fits.all():
            row = int((~fits).int().argmax())
            said = "were said to be" if self.answerer.kind is not None else "looked like"
            raise ModelError(
                f"The answers of {self.answerer.description} {said} probabilities, but row {row} of {len(scores)} is "
                f'{[round(value, 4) for value in scores[row, :5].tolist()]}. If they are logits, say gives="logits".'
            )

    def _ask(self, x: torch.Tensor) -> torch.Tensor:
        """One row of scores per input; of a label, one that is 1."""
        found = np.asarray(self.answerer.ask(x.detach().cpu().numpy()))
        return self._of_labels(found, len(x)) if self.gives == "labels" else self._of_scores(found, len(x))

    def _of_labels(self, found: NDArray[Any], n: int) -> torch.Tensor:
        found = found.reshape(-1)
        whole = found.dtype.kind in "iub" or (found.dtype.kind == "f" and bool((found == np.round(found)).all()))
        if len(found) != n or not whole or found.min() < 0 or found.max() >= self._classes:
            raise ModelError(
                f"{self.answerer.description} should give a label in 0..{self._classes - 1} for each of {n} inputs. "
                f"Got {found[:5].tolist()} of shape {found.shape}."
            )
        return nn.functional.one_hot(torch.from_numpy(found.astype(np.int64)), self._classes).double()

    def _of_scores(self, found: NDArray[Any], n: int) -> torch.Tensor:
        if self._classes == 2 and found.shape == (n,):
            found = found.reshape(n, 1)
        allowed = [(n, self._classes), *([(n, 1)] if self._classes == 2 else [])]
        if found.shape not in allowed or found.dtype.kind not in "fiu":
            raise ModelError(
                f"{self.answerer.description} should give scores of shape ({n}, {self._classes}), one per class. "
                f'Got {found.dtype} of shape {found.shape}. If these are labels, say gives="labels".'
            )
        return torch.from_numpy(found.astype(np.float64))

    def __repr__(self) -> str:
        return f"BlackBox({self.answerer.description}, gives {self.gives})"


def access_of(module: nn.Module) -> Access:
    """What a method can see of a network: the least that any part of it gives."""
    given: list[Access] = [part.gives for part in module.modules() if isinstance(part, BlackBox)]
    return min(given, key=_ORDER.index, default="weights")


def gives_enough(given: Access, needed: Access) -> bool:
    """Whether a model that gives `given` can be asked for `needed`.

    >>> gives_enough("scores", "labels"), gives_enough("scores", "weights")
    (True, False)
    """
    return _ORDER.index(given) >= _ORDER.index(needed)


def require_access(given: Access, needed: Access, who: str, instead: str = "") -> None:
    """Refuse in one sentence what needs more than the model gives; `instead` says what works."""
    if not gives_enough(given, needed):
        missed = "the weights of the model" if needed == "weights" else "a score for every class"
        only = "scores" if given == "scores" else "labels"
        raise AccessError(f"{who} needs {missed}, but this model only answers with {only}.{instead}")
