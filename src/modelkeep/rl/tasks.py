"""Task: which agent learns which game, for how long; the agent, its network and its settings are made from it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from modelkeep.core.errors import InputError
from modelkeep.rl import a2c
from modelkeep.rl.a2c import A2C
from modelkeep.rl.agent import Agent
from modelkeep.rl.environments.catalogue import make_levels
from modelkeep.rl.environments.vector import Environments
from modelkeep.rl.impala import settings as impala
from modelkeep.rl.impala.agent import Impala
from modelkeep.rl.impala.network import ImpalaNetwork, minatar_network
from modelkeep.rl.impala.population import RANGES, Population, PopulationSettings, ranges_around
from modelkeep.rl.learning import Learned, learn
from modelkeep.rl.networks import atari_actor_critic, minatar_actor_critic
from modelkeep.rl.rainbow import settings as rainbow
from modelkeep.rl.rainbow.agent import Rainbow
from modelkeep.rl.rainbow.network import RainbowNetwork, atari_rainbow, minatar_rainbow
from modelkeep.rl.rainbow.replay import Replay
from modelkeep.study.device import best_device
from modelkeep.training.batches import derive_seed

AgentName = Literal["A2C", "Rainbow", "IMPALA"]
JUDGES = 32
"""Copies in which an agent is judged, of all its games together."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Which agent learns which game, for how many environment steps, and how often it is judged. Plain JSON values.

    IMPALA may learn several games jointly, such as "doom/basic+doom/take_cover", each in this number of
    `copies`, and in a `population` of members whose steps are counted together.
    """

    agent: AgentName
    game: str
    copies: int
    steps: int
    evaluate_every: int
    episodes: int
    population: int = 1

    def __post_init__(self) -> None:
        if self.agent != "IMPALA" and (len(self.games) > 1 or self.population > 1):
            raise InputError(
                f"Only IMPALA learns several games jointly, or in a population. Got {self.agent} for '{self.game}' and "
                f"a population of {self.population}."
            )
        if len(set(self.games)) < len(self.games):
            raise InputError(f"Each game of a task must be named once. Got '{self.game}'.")

    @property
    def games(self) -> tuple[str, ...]:
        """The games by name."""
        return tuple(self.game.split("+"))

    @property
    def family(self) -> str:
        """What its games belong to: minatar, atari or doom."""
        return self.game.partition("/")[0]

    @property
    def small(self) -> bool:
        """Whether its games are MinAtar's, for which networks and settings are small."""
        return self.family == "minatar"

    def judges(self) -> tuple[Environments, ...]:
        """Copies of its games to judge an agent in, which must be closed."""
        return make_levels(self.game, max(1, JUDGES // len(self.games)))

    def to_json(self) -> dict[str, Any]:
        """For the parameters of a trial."""
        return asdict(self)


def train(task: Task, *, seed: int, checkpoint: Path | None = None) -> tuple[Agent, Learned]:
    """An agent that has learned the task from nothing, and how it did.

    >>> task = Task(agent="A2C", game="minatar/breakout", copies=16, steps=800, evaluate_every=400, episodes=2)
    >>> agent, learned = train(task, seed=0)
    >>> [judged.step for judged in learned.evaluations]
    [0, 400, 800]
    """
    return train_network(task, new_network(task, seed), seed, checkpoint)


def train_network(
    task: Task, network: nn.Module, seed: int, checkpoint: Path | None = None, replay: Replay | None = None
) -> tuple[Agent, Learned]:
    """Let the task's agent learn with this network, for as long as the task says, and judge it.

    Rainbow may begin with the experience of another. Afterwards the agent can play, but its games are closed.
    """
    with ExitStack() as opened:

        def closing(levels: tuple[Environments, ...]) -> tuple[Environments, ...]:
            for level in levels:
                opened.callback(level.close)
            return levels

        def games() -> tuple[Environments, ...]:
            # A lost life ends an episode for an agent that learns Atari (Mnih2016); it is judged by whole games.
            return closing(make_levels(task.game, task.copies, life_ends=task.family == "atari"))

        agent = _agent(task, games, network, seed, replay)
        return agent, learn(
            agent,
            closing(task.judges()),
            steps=task.steps,
            evaluate_every=task.evaluate_every,
            episodes=task.episodes,
            seed=seed,
            checkpoint=checkpoint,
        )


def _agent(
    task: Task, games: Callable[[], tuple[Environments, ...]], network: nn.Module, seed: int, replay: Replay | None
) -> Agent:
    match network:
        case RainbowNetwork():
            return Rainbow(games()[0], network, rainbow.MINATAR if task.small else rainbow.ATARI, seed, replay=replay)
        case ImpalaNetwork():
            settings = {"minatar": impala.MINATAR, "atari": impala.ATARI, "doom": impala.LAB}[task.family]
            if settings.total is not None:
                settings = replace(settings, total=max(1, task.steps // task.population))
            if task.population == 1:
                return Impala(games(), network, settings, seed)

            def member(values: dict[str, float], seed: int) -> Impala:
                return Impala(games(), copy.deepcopy(network), settings.with_values(values), seed)

            ranges = ranges_around(settings) if task.small else RANGES
            return Population(member, PopulationSettings(size=task.population, ranges=ranges), seed)
        case _:
            long = a2c.ATARI if task.steps > 10 * a2c.ATARI_SHORT.total else a2c.ATARI_SHORT
            return A2C(games()[0], network, replace(a2c.MINATAR if task.small else long, total=task.steps), seed)


def new_network(task: Task, seed: int) -> nn.Module:
    """The task's network with weights drawn from the seed; MinAtar's is too small to gain from a GPU."""
    levels = make_levels(task.game, 1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(seed, "network"))
            network = _network(task, levels[0].observation_shape, levels[0].actions)
        return network.to("cpu" if task.small else best_device())
    finally:
        for level in levels:
            level.close()


def _network(task: Task, shape: tuple[int, ...], actions: int) -> nn.Module:
    if task.agent == "A2C":
        return minatar_actor_critic(shape[0], actions) if task.small else atari_actor_critic(actions)
    if task.agent == "Rainbow":
        return minatar_rainbow(shape[0], actions) if task.small else atari_rainbow(actions)
    return minatar_network(shape, actions) if task.small else ImpalaNetwork(shape, actions)
