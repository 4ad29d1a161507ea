"""D-DAE: a small network that learns to undo the defence from pairs that the attacker makes himself (appendix B.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from modelkeep.attack.transfer.proxy import Architecture, new_network
from modelkeep.core import progress
from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.extract.bayes import Means, PartialBayes
from modelkeep.extract.recoveries import Knowledge
from modelkeep.extract.substitute import train_substitute
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import architectures

SHADOWS = Recipe(epochs=10, batch_size=64, learning_rate=2e-3)
RESTORER = Recipe(epochs=5, batch_size=256, learning_rate=2e-3)
EQUATION_21 = PartialBayes()
CPU = torch.device("cpu")
three_layers: Architecture = partial(architectures.dense, hidden=[128, 128])


@dataclass(frozen=True)
class DDAE:
    """D-DAE: the restorer learns from (p(fᵢ(x)), fᵢ(x)) of `shadows` small networks fᵢ on the questions x.

    Each shadow is trained on its own half of the questions with the labels that the query set has for them, or with
    the target's labels where that set has another number of classes.
    """

    shadows: int = 20
    architecture: Architecture | None = None
    shadow_recipe: Recipe = SHADOWS
    recipe: Recipe = RESTORER

    def __post_init__(self) -> None:
        if self.shadows < 1:
            raise bad_parameter("DDAE", "shadows", "at least 1", self.shadows)

    def __call__(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
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
        return restored(answers, clean, perturbed, self.recipe, knowledge.seed)

    def _shadow(self, knowledge: Knowledge, seed: int) -> torch.Tensor:
        """The predictions of a new shadow model on all questions."""
        x = knowledge.questions
        half = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[: max(2, len(x) // 2)]
        public = Data(x[half], knowledge.labels[half], knowledge.target.classes, bounds=knowledge.target.bounds)
        model = new_network(knowledge.target, public.x, self.architecture, seed)
        fit(model, public, cross_entropy, self.shadow_recipe, seed=seed)
        return Scores(model).probs(x).cpu().float()


@dataclass(frozen=True)
class DDAEPlus:
    """D-DAE+: the same restorer, taught by the table of the partial Bayes attack instead of by shadow models."""

    table: PartialBayes = EQUATION_21
    recipe: Recipe = RESTORER

    @property
    def means(self) -> Means | torch.Tensor:
        """Around what the table is drawn."""
        return self.table.means

    def __call__(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        if knowledge.nothing_is_hidden:
            return answers
        pairs = self.table.table(answers, knowledge)
        clean, perturbed = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        return restored(answers, clean, perturbed, self.recipe, knowledge.seed)


@dataclass(frozen=True)
class _Predictions:
    """The restorer's interface: predictions in, predictions out."""

    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    bounds: tuple[float, float] | None = (0.0, 1.0)
    dtype: torch.dtype = torch.float32
    device: torch.device = CPU


def restored(
    answers: torch.Tensor, clean: torch.Tensor, perturbed: torch.Tensor, recipe: Recipe, seed: int
) -> torch.Tensor:
    """The answers through a network of three layers that learnt `clean` from `perturbed`, both (m, classes).

    Its loss is the cross-entropy of the clean predictions, whose minimum is their conditional mean: the Bayes estimate.
    """
    count = answers.shape[1]
    predictions = _Predictions(tuple(map(str, range(count))), (count,))
    restorer = train_substitute(predictions, perturbed, clean, architecture=three_layers, recipe=recipe, seed=seed)
    return Scores(restorer).probs(answers)
