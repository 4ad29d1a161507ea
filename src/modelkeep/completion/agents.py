"""Completion of an agent: a part of its network is drawn anew, it learns again, and its steps in the game count."""

from __future__ import annotations

import copy
from pathlib import Path

from torch import nn

from modelkeep.completion.curve import Curve
from modelkeep.completion.initialisation import SCHEMES, Scheme, reset
from modelkeep.completion.part import Part
from modelkeep.completion.procedures.overparametrisation import overparametrise
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.rl.agent import Agent
from modelkeep.rl.learning import Learned
from modelkeep.rl.rainbow.agent import Rainbow
from modelkeep.rl.tasks import Task, train_network


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
        task: What it was trained for; all settings are those of the original training, as in Martic2018.
        trained: The agent that the original training gave. It is not changed.
        part: What is missing of its network.
        procedure: "T1" all is trained, "T2" only the part, "T3" two layers in place of each of the part's, "T4 …" the
            part is drawn by another scheme.
        seed: The seed of the new part, of the games and of the agent's choices.
        keep_replay: Start with the experience of the trained agent (Rainbow only; Martic2018, figure 5).
        checkpoint: Where to keep the state of the run.
    """
    if keep_replay and not isinstance(trained, Rainbow):
        raise InputError(f"Only Rainbow has a replay buffer to keep. Got an agent of {task.agent}.")
    network = reset_network(trained.network, part, procedure, seed)
    replay = trained.replay if keep_replay and isinstance(trained, Rainbow) else None
    return train_network(task, network, seed, checkpoint, replay)[1]


def reset_network(network: nn.Module, part: Part, procedure: str, seed: int) -> nn.Module:
    """A copy of a trained network with a new `part`, as a procedure begins with it; T2 lets nothing else train."""
    network = copy.deepcopy(network)
    schemes: dict[str, Scheme] = {"T1": "own", "T2": "own", "T3": "own"}
    schemes |= {f"T4 {scheme}": scheme for scheme in SCHEMES}
    if procedure not in schemes:
        raise bad_parameter("complete", "procedure", f"one of {', '.join(schemes)}", procedure)
    if procedure == "T2" and part.share < 1:
        raise InputError("T2 of an agent trains whole parameters. Give a part with share=1, or use T1.")
    reset(network, part, scheme=schemes[procedure], seed=seed)
    if procedure == "T3":
        overparametrise(network, part, seed=seed)
    if procedure == "T2":
        missing = {id(parameter) for parameter in part.parameters(network).values()}
        for parameter in network.parameters():
            parameter.requires_grad_(id(parameter) in missing)
    return network


def loss_curves(learned: Learned) -> dict[str, Curve]:
    """L(θ) = E[−G] (Martic2018, section 3): the negative mean return at each evaluation, by level."""
    steps = tuple(judged.step for judged in learned.evaluations)
    return {
        level: Curve(steps, tuple(-judged.levels[level].value for judged in learned.evaluations))
        for level in learned.last.levels
    }
