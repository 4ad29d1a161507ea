"""Theft: the steps of an extraction, the same for one copy and for a curve of copies; and how a copy is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modelkeep.core.access import Labels, Scores
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.extract.knowledge import Knowledge
from modelkeep.extract.strategies import Harvest, Thief
from modelkeep.extract.substitute import train_substitute
from modelkeep.extract.target import Guarded, Target, open_target, probabilities
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.grid import snap

if TYPE_CHECKING:
    from modelkeep.extract.extraction import Extract


class Theft:
    """The steps of one extraction: ask, recover, learn."""

    def __init__(self, settings: Extract, target: Target, seed: int) -> None:
        self.settings, self.target, self.seed = settings, target, seed
        defence = settings.defence
        if defence is None and isinstance(target, Labels):
            defence = target.defence if isinstance(target, Guarded) else NoDefence()
        self.defence = defence
        self.defence_name = "unknown" if defence is None else defence.name

    def ask(self) -> tuple[Harvest, int]:
        """The questions with their answers, and the queries that they took."""
        before = self.target.queries
        thief = Thief(self._answers, self._train, self.target.bounds, self.seed)
        harvest = self.settings.strategy(thief, self.settings.pool)
        return harvest, self.target.queries - before

    def recover(self, harvest: Harvest) -> tuple[torch.Tensor, Estimate | None]:
        """What the attacker makes of the answers, and how far from the clean predictions that is."""
        x, answers = harvest.questions, harvest.answers
        model = self.settings.clean
        # Of a model that only gives labels, nobody knows the predictions.
        clean = None if model is None or model.access == "labels" else Scores(model).probs(x).cpu().float()
        labels = answers.argmax(dim=1)
        if harvest.original is not None and harvest.original_classes == answers.shape[1]:
            labels = harvest.original
        knowledge = Knowledge(self.target, x, labels, self.seed, self.defence, self._state(x, answers), clean)
        recovered = self.settings.attack.recover(answers, knowledge)
        if clean is None:
            return recovered, None
        distances = (recovered - clean).double().norm(dim=1)
        return recovered, Estimate.bootstrap(distances.numpy(), self.seed)

    def learn(self, questions: torch.Tensor, recovered: torch.Tensor) -> Model:
        """The substitute."""
        return self._train(questions, recovered, self.settings.attack.rotations)

    def _answers(self, x: torch.Tensor, seed: int) -> torch.Tensor:
        answers = self.settings.attack.ask(self.target, x, seed)
        return probabilities(answers, (len(x), len(self.target.classes)))

    def _train(self, x: torch.Tensor, answers: torch.Tensor, rotations: bool = False) -> Model:
        """A substitute; without rotations also for a strategy that looks at one on the way."""
        settings = self.settings
        return train_substitute(
            self.target,
            x,
            answers,
            architecture=settings.architecture,
            recipe=settings.recipe,
            rotations=rotations,
            nest=settings.pool.nest,
            seed=self.seed,
        )

    def _state(self, x: torch.Tensor, answers: torch.Tensor) -> Any:
        """The defence's state: a guarded target's own, else what an attacker rebuilds from the answers.

        Of ordered quantisation the answers tell all of it: each is a centroid, and in the order of their first
        appearance they found the same list again.
        """
        if isinstance(self.target, Guarded):
            return self.target.state
        if self.defence is None:
            return None
        state = self.defence.initial(answers.shape[1])
        if state is not None:
            self.defence(snap(answers.numpy()), state, x if self.defence.needs_inputs else None)
        return state


class Judge:
    """The target's labels for the test data, and what a copy is worth beside them."""

    def __init__(self, target: Target, test: Data, clean: Model | None) -> None:
        if test.input_shape != target.input_shape or len(test.classes) != len(target.classes):
            raise InputError(
                f"The test data must fit the target: inputs {target.input_shape} and {len(target.classes)} classes. "
                f"'{test.name}' has inputs {test.input_shape} and {len(test.classes)} classes."
            )
        before = target.queries
        answers = target.probs(test.x) if clean is None else open_target(clean).probs(test.x)
        self.queries = target.queries - before
        self.labels = answers.argmax(dim=1).cpu()
        self.test = test

    @property
    def target_accuracy(self) -> Estimate:
        """Of the target itself."""
        return self._agreement(self.labels, self.test.y)

    def accuracy(self, substitute: Model) -> Estimate:
        """The share of true labels."""
        return self._agreement(Scores(substitute).labels(self.test.x).cpu(), self.test.y)

    def fidelity(self, substitute: Model) -> Estimate:
        """The share of the target's labels."""
        return self._agreement(Scores(substitute).labels(self.test.x).cpu(), self.labels)

    def _agreement(self, ours: torch.Tensor, theirs: torch.Tensor) -> Estimate:
        return Estimate.rate(int((ours == theirs).sum()), len(theirs))
