"""Population-based training: agents that learn side by side; the worst go on as changed copies of the best.

Jaderberg2017. Each of the members has its own values of some settings. Now and then the lowest fifth copies
weights and values from a member of the highest fifth (exploit: truncation selection) and multiplies or divides each
value by 1.2 (explore).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from torch import Tensor, nn

from modelkeep.core.errors import bad_parameter
from modelkeep.rl.agent import Agent, Player
from modelkeep.rl.environments.vector import State, within
from modelkeep.rl.impala.settings import EVOLVED, ImpalaSettings
from modelkeep.training.batches import derive_seed


class Member(Agent, Protocol):
    """An agent that can be one of a population."""

    def scores(self) -> tuple[float, ...] | None:
        """How good it is now at each level, the more the better; None where that is not known yet."""
        ...

    def inherit(self, parent: Self, values: Mapping[str, float]) -> None:
        """Go on with what the parent has learned, and with these values of its settings."""
        ...


@dataclass(frozen=True)
class Range:
    """Where a value is drawn from at the start, log-uniformly; later it may leave it."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise bad_parameter("Range", "low", f"above 0 and at most high, {self.high}", self.low)

    def draw(self, random: np.random.Generator) -> float:
        """A value at the start."""
        return math.exp(random.uniform(math.log(self.low), math.log(self.high)))


# Espeholt2018, appendix D; they draw ε from 1e-1, 1e-3, 1e-5 and 1e-7.
RANGES = {"entropy_cost": Range(5e-5, 1e-2), "learning_rate": Range(5e-6, 5e-3), "epsilon": Range(1e-7, 1e-1)}


def ranges_around(settings: ImpalaSettings, factor: float = 3.0) -> dict[str, Range]:
    """Ranges for a short run, whose few selections cannot find the way from values that are far off: about a preset.

    >>> ranges_around(ImpalaSettings(learning_rate=0.003))["learning_rate"]
    Range(low=0.001, high=0.009)
    """
    found = {name: getattr(settings, name) for name in EVOLVED}
    return {name: Range(round(value / factor, 12), round(value * factor, 12)) for name, value in found.items()}


@dataclass(frozen=True)
class PopulationSettings:
    """How a population evolves; twelve members and these ranges as in Martic2018, the rest as in Jaderberg2017."""

    size: int = 12
    interval: int = 100
    """Advances of all members between two selections."""
    truncation: float = 0.2
    """The share of the members that is replaced, and the share that is copied from; each is at least one member."""
    factor: float = 1.2
    ranges: dict[str, Range] = field(default_factory=lambda: dict(RANGES))
    """What evolves, and where it begins."""

    def __post_init__(self) -> None:
        if self.size < 2:
            raise bad_parameter("PopulationSettings", "size", "an integer of at least 2", self.size)
        if self.interval < 1:
            raise bad_parameter("PopulationSettings", "interval", "an integer of at least 1", self.interval)
        if not 0 < self.truncation <= 0.5:
            raise bad_parameter("PopulationSettings", "truncation", "above 0 and at most 0.5", self.truncation)
        if not self.factor > 1:
            raise bad_parameter("PopulationSettings", "factor", "a number above 1", self.factor)


M = TypeVar("M", bound=Member)


class Population(Generic[M]):
    """Agents that learn side by side; itself an agent, whose network and player are those of its best member.

    `make_agent(values, seed)` makes a member with environments and a network of its own:

        def member(values: dict[str, float], seed: int) -> Impala:
            return Impala([make("minatar/breakout", 32)], copy.deepcopy(network), MINATAR.with_values(values), seed)
    """

    def __init__(
        self, make_agent: Callable[[dict[str, float], int], M], settings: PopulationSettings, seed: int
    ) -> None:
        self.settings = settings
        self.random = np.random.default_rng(derive_seed(seed, "population"))
        self.values = [
            {name: between.draw(self.random) for name, between in settings.ranges.items()} for _ in range(settings.size)
        ]
        self.members = [make_agent(dict(v), derive_seed(seed, "member", i)) for i, v in enumerate(self.values)]
        self.rounds = 0
        self.best = 0

    @property
    def network(self) -> nn.Module:
        """That of the best member."""
        return self.members[self.best].network

    def advance(self) -> int:
        """All members advance, and their steps are counted together; where it is time, the worst are replaced."""
        steps = sum(member.advance() for member in self.members)
        self.rounds += 1
        ranked = self._rank()
        if ranked:
            self.best = ranked[-1]
        if self.rounds % self.settings.interval == 0:
            self._evolve(ranked)
        return steps

    def player(self, seed: int) -> Player:
        """The best member's policy as it is now."""
        return self.members[self.best].player(seed)

    def _rank(self) -> list[int]:
        """The members whose scores are known, the worst first: by how often they are better than another at a level.

        Returns of different games have different scales, and the mean of the scores would be that of a few of them.
        """
        known = {i: found for i, member in enumerate(self.members) if (found := member.scores()) is not None}
        if not known:
            return []
        scores = np.array(list(known.values()))  # (members, levels)
        wins = np.sign(scores[:, None] - scores).sum(axis=(1, 2))
        return [i for _, i in sorted(zip(wins, known, strict=True), key=lambda each: (each[0], -each[1]))]

    def _evolve(self, ranked: list[int]) -> None:
        """Exploit and explore, among the members whose scores are known."""
        if len(ranked) < 2:
            return
        count = max(1, int(self.settings.truncation * len(ranked)))
        for loser in ranked[:count]:
            parent = ranked[-1 - int(self.random.integers(count))]
            factor = self.settings.factor
            self.values[loser] = {
                name: value * (factor if self.random.random() < 0.5 else 1 / factor)
                for name, value in self.values[parent].items()
            }
            self.members[loser].inherit(self.members[parent], self.values[loser])

    def state(self) -> State:
        """All members, their values, and the randomness of selection."""
        tensors: dict[str, Tensor] = {}
        members = []
        for i, member in enumerate(self.members):
            kept, values = member.state()
            tensors |= {f"member{i}/{name}": tensor for name, tensor in kept.items()}
            members.append(values)
        return tensors, {
            "members": members,
            "values": [dict(values) for values in self.values],
            "random": self.random.bit_generator.state,
            "rounds": self.rounds,
            "best": self.best,
        }

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        tensors, values = state
        for i, (member, kept) in enumerate(zip(self.members, values["members"], strict=True)):
            member.restore((within(tensors, f"member{i}/"), kept))
        self.values = [dict(own) for own in values["values"]]
        self.random.bit_generator.state = values["random"]
        self.rounds, self.best = values["rounds"], values["best"]

    def metrics(self) -> dict[str, float]:
        """Those of the best member, and its values."""
        return {**self.members[self.best].metrics(), **self.values[self.best]}
