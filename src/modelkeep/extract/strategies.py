"""Query strategies: what to ask the target about, in which order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import log_softmax

from modelkeep.attack.gradient.ascent import ascend
from modelkeep.core import progress
from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import declaration_of, declare, setting
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


@dataclass(frozen=True)
class Strategy(ABC):
    """A choice of questions from a pool of inputs. A subclass is declared in the family "query-strategy"."""

    queries: int = setting("Questions to ask.", default=1000, at_least=2)

    @property
    def name(self) -> str:
        """Its name in the registry; of a strategy that is not declared, its class."""
        own = declaration_of(self)
        return own.name if own is not None else type(self).__name__

    @abstractmethod
    def __call__(self, thief: Thief, pool: Data) -> Harvest:
        """Choose from the pool, and ask."""


@declare("query-strategy", "listed", extra="guard", kw_only=False)
class Listed(Strategy):
    """Asks about the first inputs of the pool, in their order."""

    def __call__(self, thief: Thief, pool: Data) -> Harvest:
        inputs = pool.x[: self.queries]
        return Harvest(inputs, thief.ask(inputs, thief.seed))


@declare("query-strategy", "knockoff", extra="guard", paper="Orekondy2019", kw_only=False)
class Knockoff(Strategy):
    """Asks about natural inputs at random: KnockoffNet with its random strategy."""

    def __call__(self, thief: Thief, pool: Data) -> Harvest:
        drawn = pool.sample(self.queries, thief.seed)
        return Harvest(drawn.x, thief.ask(drawn.x, thief.seed), drawn.y, len(drawn.classes))


@declare(
    "query-strategy",
    "adaptive-knockoff",
    extra="guard",
    paper="Orekondy2019, section 5.1.2",
    also=("adaptive",),
    kw_only=False,
)
class AdaptiveKnockoff(Strategy):
    """Asks about natural inputs of the classes that taught most: KnockoffNet with its adaptive strategy.

    A gradient bandit learns which classes of the pool are worth asking. The queries go out in `rounds`. Each question's
    class is drawn by the bandit's preferences; its reward is the sum of how certain the target was, how different its
    answer was from those so far, and how badly the substitute knew it.
    """

    rounds: int = setting("Rounds in which the queries go out.", default=10, at_least=1)
    step_size: float = setting("The bandit's step.", default=0.05, above=0)

    def __call__(self, thief: Thief, pool: Data) -> Harvest:
        if self.queries > len(pool):
            raise bad_parameter("AdaptiveKnockoff", "queries", f"at most the {len(pool)} of the pool", self.queries)
        generator = torch.Generator().manual_seed(thief.seed)
        order = torch.randperm(len(pool), generator=generator)
        unasked = [order[pool.y[order] == c].tolist() for c in range(len(pool.classes))]
        preference = torch.zeros(len(unasked), dtype=torch.float64)
        chosen, answers, mean_reward = order[:0], torch.empty(0), 0.0
        with progress.task("adaptive knockoff", self.queries) as task:
            for due in torch.full((self.queries,), 1).tensor_split(min(self.rounds, self.queries)):
                actions, picked = _draw(preference, unasked, len(due), generator)
                index = torch.tensor(picked)
                new = thief.ask(pool.x[index], thief.seed + len(chosen))
                if len(chosen):
                    known = thief.train(pool.x[chosen], answers)
                    reward = _reward(new, answers, Scores(known).probs(pool.x[index]).cpu())
                    # The gradient bandit: preferences follow the rewards above their running mean.
                    mean_reward += (float(reward.mean()) - mean_reward) / 2
                    for action, gained in zip(actions, (reward - mean_reward).tolist(), strict=True):
                        preference -= self.step_size * gained * preference.softmax(dim=0)
                        preference[action] += self.step_size * gained
                chosen, answers = torch.cat([chosen, index]), torch.cat([answers, new])
                task.advance(len(index))
        return Harvest(pool.x[chosen], answers, pool.y[chosen], len(pool.classes))


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


@declare("query-strategy", "jbda-tr", extra="guard", paper="Juuti2019; Tang2024, section 4.1", kw_only=False)
class JacobianAugmentation(Strategy):
    """Asks about few natural inputs, then about what the copy finds between classes (JBDA-TR).

    Until `queries` are asked: train a substitute on all answers so far, move every question by `iterations` steps of
    I-FGSM of size `step`, each towards a class of its own drawn at random, and ask about where they ended.
    """

    seeds: int | None = setting("Natural inputs to start with; a tenth of the queries by default.", default=None)
    step: float = setting("The size of a step.", default=0.1, above=0)
    iterations: int = setting("Steps of I-FGSM.", default=3, at_least=1)

    def __post_init__(self) -> None:
        if self.seeds is not None and not 2 <= self.seeds <= self.queries:
            raise bad_parameter("JacobianAugmentation", "seeds", f"from 2 to the {self.queries} queries", self.seeds)

    def __call__(self, thief: Thief, pool: Data) -> Harvest:
        generator = torch.Generator().manual_seed(thief.seed)
        seeds = pool.sample(max(2, self.queries // 10) if self.seeds is None else self.seeds, thief.seed)
        x, answers = seeds.x, thief.ask(seeds.x, thief.seed)
        with progress.task("Jacobian augmentation", self.queries) as task:
            task.advance(len(x))
            while len(x) < self.queries:
                substitute = thief.train(x, answers)
                room = self.queries - len(x)
                start = x if room >= len(x) else x[torch.randperm(len(x), generator=generator)[:room]]
                moved = torch.cat([self._move(substitute, part, generator) for part in torch.split(start, 512)])
                answers = torch.cat([answers, thief.ask(moved, thief.seed + len(x))])
                x = torch.cat([x, moved])
                task.advance(len(moved))
        return Harvest(x, answers)

    def _move(self, substitute: Model, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """`x` some steps towards other classes of the substitute, drawn anew for each step; within the bounds."""

        def towards_any(moved: torch.Tensor) -> torch.Tensor:
            wanted = torch.randint(len(substitute.classes), (len(moved), 1), generator=generator)
            return log_softmax(substitute.forward(moved), dim=1).gather(1, wanted.to(moved.device))

        start = x.to(substitute.device, substitute.dtype)
        ball = Ball("linf", None, substitute.bounds)
        with substitute.frozen(0):
            moved = ascend(towards_any, start, start, ball=ball, step_size=self.step, steps=self.iterations)
        return moved.to(x)
