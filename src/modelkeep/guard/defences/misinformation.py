"""Adaptive misinformation (Kariyappa2020; Tang2024, appendix B.2): wrong answers where the network is unsure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.inputs import check_queries
from modelkeep.guard.grid import ONE, Predictions, Units, snap
from modelkeep.training import Recipe, Step, fit
from modelkeep.training.fresh_network import copy_untrained

NEGLIGIBLE = 1e-12  # a share of misinformation too small to move an answer on the grid


@declare(
    "guard",
    "adaptive-misinformation",
    access="scores",
    paper="Kariyappa2020; Tang2024, appendix B.2",
    extra="guard",
    kw_only=False,
)
class AdaptiveMisinformation(Defence):
    """Answers wrongly, by a network of its own, where the model is unsure.

    ŷ = (1 − α) y + α f̂(x) with α = 1 / (1 + exp(ν (y_max − τ))).

    τ is the `threshold`: a query whose top confidence is below it counts as out of distribution, and gets the answer
    of the `misinformation` model f̂ (see `misinform`). It promises no budget and no top-1 label.
    """

    threshold: float = setting("Below this top confidence answers are wrong.", at_least=0, at_most=1)
    misinformation: Model = setting("The network that gives the wrong answers, such as `misinform` trains.")
    nu: float = setting("How sharp the threshold is.", default=1000.0, above=0, below=math.inf)
    keeps_top = False
    needs_inputs = True
    stored_name = "modelkeep.guard.defences.misinformation.AdaptiveMisinformation"

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        asked = check_queries("Adaptive misinformation", self.misinformation, predictions, inputs)
        misled = predictions.units / ONE
        # Each query by itself, so that its answer does not depend on the others.
        for row in np.flatnonzero(self.share(predictions) > NEGLIGIBLE):
            misled[row] = self.misinformation.probs(asked[[row]])[0].double().cpu().numpy()
        return self.mix(predictions, misled)

    def share(self, predictions: Predictions) -> NDArray[np.float64]:
        """α, the share of misinformation in each answer, (n,)."""
        with np.errstate(over="ignore"):  # exp(ν …) = ∞ is right: α = 0
            return np.asarray(1 / (1 + np.exp(self.nu * (predictions.units.max(axis=1) / ONE - self.threshold))))

    def mix(self, predictions: Predictions, misled: NDArray[np.float64]) -> Units:
        """The answers where the misinformation model says `misled: (n, classes)`."""
        alpha = self.share(predictions)[:, None]
        return snap((1 - alpha) * (predictions.units / ONE) + alpha * misled).units


def reverse_cross_entropy(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
    """CE(1 − f̂(x), y) = −log(1 − f̂(x)_y), the mean over the batch: small where the true class has no confidence."""
    logits = model.forward(x)
    others = logits.scatter(1, y[:, None], -math.inf)
    # 1 − softmax_y is what the other classes have together; in logarithms it keeps its digits where f̂_y is near 1.
    return (logits.logsumexp(dim=1) - others.logsumexp(dim=1)).mean()


def misinform(model: Model, data: Data, recipe: Recipe, *, seed: int = 0) -> Model:
    """A misinformation model: the architecture of `model` with fresh weights, trained to be wrong on `data`.

    >>> from torch import nn
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> wrong = misinform(model, data, Recipe(epochs=50, learning_rate=0.1), seed=0)
    >>> bool((wrong.predict(data.x) != data.y).all())
    True
    """
    misled = copy_untrained(model, seed)
    fit(misled, data, reverse_cross_entropy, recipe, seed=seed)
    return misled
