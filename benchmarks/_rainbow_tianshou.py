"""Tianshou's Rainbow with the layers of `minatar_rainbow`, as a peer: its replay has a sum tree compiled by numba."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from modelkeep.rl.environments.vector import Environments
from modelkeep.rl.rainbow import RainbowSettings


class RainbowOfTianshou:
    """Acts in the environments, and updates its network as often as `settings` say."""

    def __init__(self, environments: Environments, settings: RainbowSettings, seed: int) -> None:
        from gymnasium.spaces import Discrete

        modelfree, data = "tianshou.algorithm.modelfree", import_module("tianshou.data")
        torch.manual_seed(seed)
        np.random.seed(seed)  # tianshou draws from the global generator
        self.environments, self.settings, self.steps = environments, settings, 0
        self.policy = import_module(f"{modelfree}.c51").C51Policy(
            model=_network(environments.observation_shape[0], environments.actions, settings.atoms),
            action_space=Discrete(environments.actions),
            num_atoms=settings.atoms,
            v_min=settings.lowest,
            v_max=settings.highest,
        )
        adam = import_module("tianshou.algorithm.optim").AdamOptimizerFactory
        self.algorithm = import_module(f"{modelfree}.rainbow").RainbowDQN(
            policy=self.policy,
            optim=adam(lr=settings.learning_rate, eps=settings.adam_epsilon),
            gamma=settings.discount,
            n_step_return_horizon=settings.n_step,
            target_update_freq=settings.target_every // settings.steps_per_update,
        )
        self.buffer = data.PrioritizedVectorReplayBuffer(
            settings.capacity,
            environments.count,
            alpha=settings.priority_exponent,
            beta=settings.correction,
            ignore_obs_next=True,
        )
        self.batch = data.Batch
        self.training = import_module("tianshou.algorithm.algorithm_base").policy_within_training_step
        self.observations = environments.reset(seed)

    def advance(self) -> int:
        """One step of all copies and the updates that are due."""
        before, count = self.steps, self.environments.count
        with torch.no_grad(), self.training(self.policy):
            actions = self.policy(self.batch(obs=self.observations, info=self.batch())).act
        actions = np.asarray(actions)
        stepped = self.environments.step(actions)
        step: dict[str, Any] = {"obs": self.observations, "act": actions, "rew": stepped.rewards}
        ends = {"terminated": stepped.ended, "truncated": np.zeros(count, np.bool_)}
        self.buffer.add(self.batch(**step, **ends, obs_next=stepped.observations, info=np.array([{}] * count)))
        self.observations = stepped.observations
        self.steps += count
        if len(self.buffer) >= self.settings.learning_starts:
            every = self.settings.steps_per_update
            for _ in range(self.steps // every - before // every):
                with self.training(self.policy):
                    self.algorithm.update(buffer=self.buffer, sample_size=self.settings.batch_size)
        return count


def _network(channels: int, actions: int, atoms: int) -> nn.Module:
    noisy: Callable[[int, int], nn.Module] = import_module("tianshou.utils.net.discrete").NoisyLinear

    class Network(nn.Module):
        """Probabilities `(n, actions, atoms)`, and the state that tianshou hands along."""

        def __init__(self) -> None:
            super().__init__()
            convolutions = nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()
            self.torso = nn.Sequential(*convolutions, nn.Flatten())
            self.value = nn.Sequential(noisy(576, 64), nn.ReLU(), noisy(64, atoms))
            self.advantage = nn.Sequential(noisy(576, 64), nn.ReLU(), noisy(64, actions * atoms))

        def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
            features = self.torso(torch.as_tensor(obs).float())
            advantage = self.advantage(features).view(-1, actions, atoms)
            logits = self.value(features)[:, None] + advantage - advantage.mean(dim=1, keepdim=True)
            return logits.softmax(dim=2), state

    return Network()
