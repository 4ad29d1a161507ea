"""D-DAE: a small network learns to undo the defence from pairs that the attacker makes (Chen2023; Tang2024, B.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch

from modelkeep.attack.transfer.proxy import Architecture, new_network
from modelkeep.core import progress
from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.extract.attacks import Attack
from modelkeep.extract.bayes import TableAttack
from modelkeep.extract.knowledge import Knowledge
from modelkeep.extract.substitute import Distances, train_substitute
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import architectures

_SHADOWS = Recipe(epochs=10, batch_size=64, learning_rate=2e-3)
_RESTORER = Recipe(epochs=5, batch_size=256, learning_rate=2e-3)
RestorerLoss = Literal["cross-entropy", "l1"]
CPU = torch.device("cpu")
_three_layers: Architecture = partial(architectures.dense, hidden=[128, 128])


@declare("extraction", "d-dae", extra="guard", access="scores", paper="Chen2023; Tang2024, appendix B.1", kw_only=False)
class DDAE(Attack):
    """Learns to undo the defence from shadow models.

    The restorer learns from (p(fᵢ(x)), fᵢ(x)) of `shadows` small networks fᵢ on the questions x.

    Each shadow is trained on its own half of the questions with the labels that the query set has for them, or with
    the target's labels where that set has another number of classes.
    """

    shadows: int = setting("Shadow models.", default=20, at_least=1)
    architecture: Architecture | None = setting("Of a shadow model; a small one that fits by default.", default=None)
    shadow_recipe: Recipe = setting("How a shadow model is trained.", default=_SHADOWS)
    recipe: Recipe = setting("How the restorer is trained.", default=_RESTORER)
    restorer_epochs: int | None = setting(
        "How often the restorer sees its pairs (200 in Chen2023); else as in the recipe.", default=None, at_least=1
    )
    restorer_loss: RestorerLoss = setting(
        "Of the restorer: cross-entropy, or l1 as in Chen2023.",
        default="cross-entropy",
        choices=("cross-entropy", "l1"),
    )

    def recover(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        """The answers through the restorer."""
        if knowledge.nothing_is_hidden:
            return answers
        perturb, x = knowledge.perturbation(), knowledge.questions
        pairs = []
        with progress.task("shadow models", self.shadows) as task:
            for number in range(self.shadows):
                shadow = self._shadow(knowledge, knowledge.seed + number)
                pairs.append((shadow, perturb(shadow, x)))
                task.advance()
        clean, perturbed = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        return _restore(
            answers, clean, perturbed, _until(self.recipe, self.restorer_epochs), self.restorer_loss, knowledge.seed
        )

    def _shadow(self, knowledge: Knowledge, seed: int) -> torch.Tensor:
        """The predictions of a new shadow model on all questions."""
        x = knowledge.questions
        half = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[: max(2, len(x) // 2)]
        public = Data(x[half], knowledge.labels[half], knowledge.target.classes, bounds=knowledge.target.bounds)
        model = new_network(knowledge.target, public.x, self.architecture, seed, nest=public.nest)
        fit(model, public, cross_entropy, self.shadow_recipe, seed=seed)
        return Scores(model).probs(x).cpu().float()


@declare(
    "extraction",
    "d-dae-plus",
    extra="guard",
    access="scores",
    paper="Tang2024, appendix B.1",
    also=("d-dae+",),
    kw_only=False,
)
class DDAEPlus(TableAttack):
    """Learns to undo the defence from the table of partial-bayes instead of shadow models."""

    recipe: Recipe = setting("How the restorer is trained.", default=_RESTORER)
    restorer_epochs: int | None = setting(
        "How often the restorer sees its pairs (200 in Chen2023); else as in the recipe.", default=None, at_least=1
    )
    restorer_loss: RestorerLoss = setting(
        "Of the restorer: cross-entropy, or l1 as in Chen2023.",
        default="cross-entropy",
        choices=("cross-entropy", "l1"),
    )

    def recover(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        """The answers through the restorer."""
        if knowledge.nothing_is_hidden:
            return answers
        pairs = self.table(answers, knowledge)
        clean, perturbed = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        return _restore(
            answers, clean, perturbed, _until(self.recipe, self.restorer_epochs), self.restorer_loss, knowledge.seed
        )


@dataclass(frozen=True)
class _Predictions:
    """The restorer's interface: predictions in, predictions out."""

    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    bounds: tuple[float, float] | None = (0.0, 1.0)
    dtype: torch.dtype = torch.float32
    device: torch.device = CPU


def _until(recipe: Recipe, epochs: int | None) -> Recipe:
    return recipe if epochs is None else replace(recipe, epochs=epochs, steps=None)


def _restore(
    answers: torch.Tensor, clean: torch.Tensor, perturbed: torch.Tensor, recipe: Recipe, loss: RestorerLoss, seed: int
) -> torch.Tensor:
    """The answers through a network of three layers that learnt `clean` from `perturbed`, both (m, classes).

    The least cross-entropy of the clean predictions is at their conditional mean, the Bayes estimate; the least ℓ1
    distance at their conditional median.
    """
    count = answers.shape[1]
    predictions = _Predictions(tuple(map(str, range(count))), (count,))
    restorer = train_substitute(
        predictions,
        perturbed,
        clean,
        architecture=_three_layers,
        recipe=recipe,
        objective=Distances if loss == "l1" else None,
        seed=seed,
    )
    return Scores(restorer).probs(answers)
