"""Actors: play the environments with a policy, and hand over what happened, unroll by unroll."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from modelkeep.core.errors import InputError
from modelkeep.rl.environments.vector import Environments, State, StepResult, within
from modelkeep.rl.impala.network import ImpalaNetwork
from modelkeep.training.batches import derive_seed

RECENT = 100  # episodes of each level, whose mean return is its score


@dataclass(frozen=True, slots=True, eq=False)
class Unroll:
    """Some steps of all copies, and what the learner needs to think them over again."""

    observations: Tensor  # (time + 1, batch, *shape): also what came after the last step
    begun: Tensor  # (time + 1, batch): whether an episode begins with that observation; so step t − 1 ended one
    actions: Tensor  # (time, batch)
    log_mu: Tensor  # (time, batch): log μ(a | x) of the policy that acted
    rewards: Tensor  # (time, batch)
    output: Tensor  # (batch, size): the LSTM's memory before the first observation
    cell: Tensor

    def to(self, device: torch.device) -> Unroll:
        """The same on the device."""
        return Unroll(**{name: tensor.to(device) for name, tensor in tensors_of_unroll(self).items()})


class Actors:
    """All copies of all levels, what they last showed, and what was remembered of them."""

    def __init__(self, environments: Sequence[Environments], network: ImpalaNetwork, seed: int) -> None:
        kinds = {(level.observation_shape, level.actions) for level in environments}
        if len(kinds) != 1:
            got = ", ".join(f"{level.name}: {level.observation_shape}, {level.actions}" for level in environments)
            raise InputError(
                "One agent can learn several levels jointly where they show observations of one shape and have equally "
                f"many actions, and it needs at least one level. Got {got or 'none'}."
            )
        self.environments = tuple(environments)
        self.copies = sum(level.count for level in environments)
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "actions"))
        self.returns = tuple(deque[float](maxlen=RECENT) for _ in environments)
        shown = [level.reset(derive_seed(seed, "level", i) % 2**31) for i, level in enumerate(environments)]
        self.observations = torch.from_numpy(np.concatenate(shown))
        self.begun = torch.ones(self.copies, dtype=torch.bool)
        self.memory = network.blank(self.copies)
        self.device = self.memory[0].device  # of the network; what was seen waits for the learner on the CPU

    @torch.no_grad()
    def unroll(self, network: ImpalaNetwork, steps: int) -> Unroll:
        """Play this number of steps."""
        output, cell = self.memory
        observations, begun, actions, log_mu, rewards = [self.observations], [self.begun], [], [], []
        for _ in range(steps):
            logits, _, self.memory = network(self.observations[None], self.begun[None], self.memory)
            logs = logits[0].log_softmax(1).cpu()
            chosen = torch.multinomial(logs.exp(), 1, generator=self.generator)
            actions.append(chosen[:, 0])
            log_mu.append(logs.gather(1, chosen)[:, 0])
            rewards.append(self.step(chosen[:, 0]))
            observations.append(self.observations)
            begun.append(self.begun)
        return Unroll(
            torch.stack(observations),
            torch.stack(begun),
            torch.stack(actions),
            torch.stack(log_mu),
            torch.stack(rewards),
            output,
            cell,
        )

    def step(self, actions: Tensor) -> Tensor:
        """One step of every level; the rewards."""
        stepped: list[StepResult] = []
        shares = torch.split(actions, [level.count for level in self.environments])
        for level, share, returns in zip(self.environments, shares, self.returns, strict=True):
            stepped.append(level.step(share.numpy()))
            returns.extend(stepped[-1].returns)
        self.observations = torch.from_numpy(np.concatenate([s.observations for s in stepped]))
        self.begun = torch.from_numpy(np.concatenate([s.ended for s in stepped]))
        return torch.from_numpy(np.concatenate([s.rewards for s in stepped]))

    def state(self) -> State:
        """Everything that decides what they do next, but for the network."""
        tensors = {"observations": self.observations, "begun": self.begun, "generator": self.generator.get_state()}
        tensors |= {"output": self.memory[0], "cell": self.memory[1]}
        levels = []
        for i, level in enumerate(self.environments):
            kept, values = level.state()
            tensors |= {f"level{i}/{name}": tensor for name, tensor in kept.items()}
            levels.append(values)
        return tensors, {"levels": levels, "returns": [list(returns) for returns in self.returns]}

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        tensors, values = state
        self.observations, self.begun = tensors["observations"], tensors["begun"]
        self.memory = tensors["output"].to(self.device), tensors["cell"].to(self.device)
        self.generator.set_state(tensors["generator"])
        for i, level in enumerate(self.environments):
            level.restore((within(tensors, f"level{i}/"), values["levels"][i]))
        self.returns = tuple(deque(returns, RECENT) for returns in values["returns"])


def tensors_of_unroll(unroll: Unroll) -> dict[str, Tensor]:
    """The tensors of an unroll by name, for a checkpoint."""
    return {field.name: getattr(unroll, field.name) for field in fields(Unroll)}
