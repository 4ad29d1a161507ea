"""Task: which agent learns which game, for how long; the agent, its network and its settings are made from it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from modelkeep.rl import a2c
from modelkeep.rl.a2c import A2C
from modelkeep.rl.agent import Agent
from modelkeep.rl.environments.making import make
from modelkeep.rl.environments.vector import Environments
from modelkeep.rl.impala import settings as impala
from modelkeep.rl.impala.agent import Impala
from modelkeep.rl.impala.network import ImpalaNetwork, minatar_network
from modelkeep.rl.learning import Learned, learn
from modelkeep.rl.networks import atari_actor_critic, minatar_actor_critic
from modelkeep.rl.rainbow import settings as rainbow
from modelkeep.rl.rainbow.agent import Rainbow
from modelkeep.rl.rainbow.network import RainbowNetwork, atari_rainbow, minatar_rainbow
from modelkeep.rl.rainbow.replay import Replay
from modelkeep.training.batches import derived_seed

AgentName = Literal["A2C", "Rainbow", "IMPALA"]
JUDGES = 32
"""Copies of the game in which an agent is judged."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Which agent learns which game, for how many environment steps, and how often it is judged. Plain JSON values."""

    agent: AgentName
    game: str
    copies: int
    steps: int
    evaluate_every: int
    episodes: int

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
    return let_learn(task, new_network(task, seed), seed, checkpoint)


def let_learn(
    task: Task, network: nn.Module, seed: int, checkpoint: Path | None = None, replay: Replay | None = None
) -> tuple[Agent, Learned]:
    """Let the task's agent learn with this network, for as long as the task says, and judge it.

    Rainbow may begin with the experience of another. Afterwards the agent can play, but its games are closed.
    """
    with ExitStack() as opened:
        # A lost life ends an episode for whoever learns Atari (Mnih et al.); it is judged by whole games.
        games = make(task.game, task.copies, life_ends=task.game.startswith("atari/"))
        opened.callback(games.close)
        judge = make(task.game, JUDGES)
        opened.callback(judge.close)
        agent = _agent(task, games, network, seed, replay)
        return agent, learn(
            agent,
            judge,
            steps=task.steps,
            evaluate_every=task.evaluate_every,
            episodes=task.episodes,
            seed=seed,
            checkpoint=checkpoint,
        )


def _agent(task: Task, environments: Environments, network: nn.Module, seed: int, replay: Replay | None) -> Agent:
    small = task.game.startswith("minatar/")
    match network:
        case RainbowNetwork():
            return Rainbow(environments, network, rainbow.MINATAR if small else rainbow.ATARI, seed, replay=replay)
        case ImpalaNetwork():
            return Impala([environments], network, impala.MINATAR if small else impala.LAB, seed)
        case _:
            long = a2c.ATARI if task.steps > 10 * a2c.ATARI_SHORT.total else a2c.ATARI_SHORT
            return A2C(environments, network, replace(a2c.MINATAR if small else long, total=task.steps), seed)


def new_network(task: Task, seed: int) -> nn.Module:
    """The task's network with weights drawn from the seed."""
    games = make(task.game, 1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derived_seed(seed, "network"))
            return _network(task.agent, games)
    finally:
        games.close()


def _network(agent: AgentName, games: Environments) -> nn.Module:
    small, shape, actions = games.name.startswith("minatar/"), games.observation_shape, games.actions
    if agent == "A2C":
        return minatar_actor_critic(shape[0], actions) if small else atari_actor_critic(actions)
    if agent == "Rainbow":
        return minatar_rainbow(shape[0], actions) if small else atari_rainbow(actions)
    return minatar_network(shape, actions) if small else ImpalaNetwork(shape, actions)
