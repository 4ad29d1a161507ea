"""Completing an agent: a part of its network is drawn anew, it learns again, and its steps in the game are counted."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from modelkeep.completion.curve import Curve
from modelkeep.completion.initialise import SCHEMES, Scheme, drawing_from, reset
from modelkeep.completion.part import Part
from modelkeep.completion.procedures.overparametrised import overparametrised
from modelkeep.errors import InputError, bad_parameter
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
    """The original training T: an agent that has learned the task, and how it did."""
    return _learned(task, _made(task, seed, _new_network(task, seed)), seed, checkpoint)


def complete(
    task: Task,
    trained: Agent,
    part: Part,
    procedure: str,
    *,
    seed: int,
    keep_replay: bool = False,
    checkpoint: Path | None = None,
) -> Learned:
    """Retrain a copy of a trained agent without its `part`.

    Args:
        task: What it was trained for; all settings are those of the original training, as in the paper.
        trained: The agent that the original training gave. It is not changed.
        part: What is missing of its network.
        procedure: "T1" all is trained, "T2" only the part, "T3" two layers in place of each of the part's, "T4 …" the
            part is drawn by another scheme.
        seed: Of the new part, of the games and of the agent's choices.
        keep_replay: Start with the experience of the trained agent (Rainbow only; figure 5).
        checkpoint: Where to keep the state of the run.
    """
    if keep_replay and not isinstance(trained, Rainbow):
        raise InputError(f"Only Rainbow has a replay buffer to keep. Got an agent of {task.agent}.")
    network = broken(trained.network, part, procedure, seed)
    replay = trained.replay if keep_replay and isinstance(trained, Rainbow) else None
    _, learned = _learned(task, _made(task, seed, network, replay), seed, checkpoint)
    return learned


def broken(network: nn.Module, part: Part, procedure: str, seed: int) -> nn.Module:
    """A copy of a trained network with a new `part`, as a procedure begins with it; T2 lets nothing else be trained."""
    network = copy.deepcopy(network)
    schemes: dict[str, Scheme] = {"T1": "own", "T2": "own", "T3": "own"}
    schemes |= {f"T4 {scheme}": scheme for scheme in SCHEMES}
    if procedure not in schemes:
        raise bad_parameter("complete", "procedure", f"one of {', '.join(schemes)}", procedure)
    if procedure == "T2" and part.share < 1:
        raise InputError("T2 of an agent trains whole parameters. Give a part with share=1, or use T1.")
    reset(network, part, scheme=schemes[procedure], seed=seed)
    if procedure == "T3":
        overparametrised(network, part, seed=seed)
    if procedure == "T2":
        missing = {id(parameter) for parameter in part.parameters(network).values()}
        for parameter in network.parameters():
            parameter.requires_grad_(id(parameter) in missing)
    return network


def curve(learned: Learned) -> Curve:
    """L(θ) = E[−G]: the negative mean return, at each evaluation (section 3)."""
    judged = learned.evaluations
    return Curve(tuple(at.step for at in judged), tuple(-at.mean_return.value for at in judged))


def _learned(task: Task, agent: Agent, seed: int, checkpoint: Path | None) -> tuple[Agent, Learned]:
    judge = make(task.game, JUDGES)
    try:
        return agent, learn(
            agent,
            judge,
            steps=task.steps,
            evaluate_every=task.evaluate_every,
            episodes=task.episodes,
            seed=seed,
            checkpoint=checkpoint,
        )
    finally:
        judge.close()


def _made(task: Task, seed: int, network: nn.Module, replay: Replay | None = None) -> Agent:
    # A lost life ends an episode for whoever learns Atari (Mnih et al.); it is judged by whole games.
    environments = make(task.game, task.copies, life_ends=task.game.startswith("atari/"))
    small = task.game.startswith("minatar/")
    match network:
        case RainbowNetwork():
            return Rainbow(environments, network, rainbow.MINATAR if small else rainbow.ATARI, seed, replay=replay)
        case ImpalaNetwork():
            return Impala([environments], network, impala.MINATAR if small else impala.LAB, seed)
        case _:
            settings = replace(a2c.MINATAR if small else a2c.ATARI, total=task.steps)
            return A2C(environments, network, settings, seed)


def _new_network(task: Task, seed: int) -> nn.Module:
    games = make(task.game, 1)
    with drawing_from(derived_seed(seed, "network"), torch.device("cpu")):
        try:
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
