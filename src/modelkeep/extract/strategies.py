"""Query strategies: what to ask the target about, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch
from torch.nn.functional import log_softmax

from modelkeep.attack.gradient.ascent import ascend
from modelkeep.core import progress
from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball


@dataclass(frozen=True, eq=False)
class Thief:
    """What a strategy works with: `ask(x, seed)` gives answers, `train(x, answers)` a substitute that learnt them."""

    ask: Callable[[torch.Tensor, int], torch.Tensor]
    train: Callable[[torch.Tensor, torch.Tensor], Model]
    bounds: tuple[float, float] | None
    seed: int


@dataclass(frozen=True, eq=False)
class Harvest:
    """`questions: (n, ...)` in the order in which they were asked, the `answers: (n, classes)`, and `original: (n,)`
    the labels that the query set itself has for them, where it has any."""

    questions: torch.Tensor
    answers: torch.Tensor
    original: torch.Tensor | None = None
    original_classes: int = 0

    def first(self, count: int) -> Harvest:
        """What was known after `count` questions."""
        original = None if self.original is None else self.original[:count]
        return Harvest(self.questions[:count], self.answers[:count], original, self.original_classes)


class Strategy(Protocol):
    """A choice of questions. A frozen dataclass with a call."""

    name: ClassVar[str]

    def __call__(self, thief: Thief) -> Harvest:
        """Choose and ask."""


@dataclass(frozen=True)
class Listed:
    """A plain list of questions, asked in its order."""

    inputs: torch.Tensor = field(repr=False)
    name: ClassVar[str] = "listed"

    def __call__(self, thief: Thief) -> Harvest:
        return Harvest(self.inputs, thief.ask(self.inputs, thief.seed))


@dataclass(frozen=True)
class Knockoff:
    """KnockoffNet with its random strategy: `queries` natural inputs, drawn from a `pool` of any distribution."""

    pool: Data
    queries: int
    name: ClassVar[str] = "knockoff"

    def __call__(self, thief: Thief) -> Harvest:
        drawn = self.pool.sample(self.queries, thief.seed)
        return Harvest(drawn.x, thief.ask(drawn.x, thief.seed), drawn.y, len(drawn.classes))


@dataclass(frozen=True)
class AdaptiveKnockoff:
    """KnockoffNet with its adaptive strategy: a gradient bandit learns which classes of the `pool` are worth asking.

    The `queries` go out in `rounds`. Each question's class is drawn by the bandit's preferences; its reward (Orekondy
    et al., section 5.1.2) is the sum of how certain the target was, how different its answer was from those so far,
    and how badly the substitute knew it. `rate` is the bandit's step.
    """

    pool: Data
    queries: int
    rounds: int = 10
    rate: float = 0.05
    name: ClassVar[str] = "adaptive knockoff"

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= self.queries <= len(self.pool):
            allowed = f"at least as many as the {self.rounds} rounds and at most the {len(self.pool)} of the pool"
            raise bad_parameter("AdaptiveKnockoff", "queries", allowed, self.queries)

    def __call__(self, thief: Thief) -> Harvest:
        generator = torch.Generator().manual_seed(thief.seed)
        order = torch.randperm(len(self.pool), generator=generator)
        unasked = [order[self.pool.y[order] == c].tolist() for c in range(len(self.pool.classes))]
        preference = torch.zeros(len(unasked), dtype=torch.float64)
        chosen, answers, mean_reward = order[:0], torch.empty(0), 0.0
        with progress.task("adaptive knockoff", self.queries) as task:
            for due in torch.full((self.queries,), 1).tensor_split(self.rounds):
                actions, picked = _draw(preference, unasked, len(due), generator)
                index = torch.tensor(picked)
                new = thief.ask(self.pool.x[index], thief.seed + len(chosen))
                if len(chosen):
                    known = thief.train(self.pool.x[chosen], answers)
                    reward = _reward(new, answers, Scores(known).probs(self.pool.x[index]).cpu())
                    # The gradient bandit: preferences follow the rewards above their running mean.
                    mean_reward += (float(reward.mean()) - mean_reward) / 2
                    for action, gained in zip(actions, (reward - mean_reward).tolist(), strict=True):
                        preference -= self.rate * gained * preference.softmax(dim=0)
                        preference[action] += self.rate * gained
                chosen, answers = torch.cat([chosen, index]), torch.cat([answers, new])
                task.advance(len(index))
        return Harvest(self.pool.x[chosen], answers, self.pool.y[chosen], len(self.pool.classes))


def _draw(
    preference: torch.Tensor, unasked: list[list[int]], count: int, generator: torch.Generator
) -> tuple[list[int], list[int]]:
    """`count` classes by preference among those that still have examples, and the next example of each."""
    actions, picked = [], []
    for _ in range(count):
        left = torch.tensor([len(each) > 0 for each in unasked])
        chances = preference.masked_fill(~left, -torch.inf).softmax(dim=0)
        action = int(torch.multinomial(chances, 1, generator=generator))
        actions.append(action)
        picked.append(unasked[action].pop())
    return actions, picked


def _reward(new: torch.Tensor, before: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Certainty, diversity and loss of new answers `(n, classes)`, each scaled to [0, 1], and added."""
    top = new.topk(2, dim=1).values
    certainty = top[:, 0] - top[:, 1]
    diversity = (new - before.mean(dim=0)).clamp_min(0).sum(dim=1)
    loss = -(new * known.clamp_min(1e-12).log()).sum(dim=1)
    parts = torch.stack([certainty, diversity, loss]).double()
    low, high = parts.amin(dim=1, keepdim=True), parts.amax(dim=1, keepdim=True)
    return ((parts - low) / (high - low).clamp_min(1e-12)).sum(dim=0)


@dataclass(frozen=True)
class JacobianAugmentation:
    """JBDA-TR: few natural `seeds`, and then what the substitute itself finds towards classes drawn at random.

    Until `queries` are asked: train a substitute on all answers so far, move every question by `iterations` steps of
    I-FGSM of size `step`, each towards a class of its own, and ask about where they ended.
    """

    seeds: Data
    queries: int
    step: float = 0.1
    iterations: int = 3
    name: ClassVar[str] = "jbda-tr"

    def __post_init__(self) -> None:
        if not 2 <= len(self.seeds) <= self.queries:
            allowed = f"at least the number of seeds, which are {len(self.seeds)} and must be 2 or more"
            raise bad_parameter("JacobianAugmentation", "queries", allowed, self.queries)
        if not self.step > 0 or self.iterations < 1:
            raise bad_parameter("JacobianAugmentation", "step", "above 0, with 1 iteration or more", self.step)

    def __call__(self, thief: Thief) -> Harvest:
        generator = torch.Generator().manual_seed(thief.seed)
        x, answers = self.seeds.x, thief.ask(self.seeds.x, thief.seed)
        with progress.task("Jacobian augmentation", self.queries) as task:
            task.advance(len(x))
            while len(x) < self.queries:
                substitute = thief.train(x, answers)
                room = self.queries - len(x)
                start = x if room >= len(x) else x[torch.randperm(len(x), generator=generator)[:room]]
                moved = torch.cat([self._moved(substitute, part, generator) for part in torch.split(start, 512)])
                answers = torch.cat([answers, thief.ask(moved, thief.seed + len(x))])
                x = torch.cat([x, moved])
                task.advance(len(moved))
        return Harvest(x, answers)

    def _moved(self, substitute: Model, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """`x` some steps towards other classes of the substitute, drawn anew for each step; within the bounds."""

        def towards_any(moved: torch.Tensor) -> torch.Tensor:
            wanted = torch.randint(len(substitute.classes), (len(moved), 1), generator=generator)
            return log_softmax(substitute.forward(moved), dim=1).gather(1, wanted.to(moved.device))

        start = x.to(substitute.device, substitute.dtype)
        ball = Ball("linf", None, substitute.bounds)
        with substitute.frozen(0):
            moved = ascend(towards_any, start, start, ball=ball, step_size=self.step, steps=self.iterations)
        return moved.to(x)
