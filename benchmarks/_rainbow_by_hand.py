"""Rainbow as it is usually written in torch, to measure ours against: the way of CleanRL's `rainbow_atari.py`.

As there: two binary trees of priorities that Python climbs one transition at a time, observations stored twice, layers
that draw a number of noise for each weight, a projection row by row. Unlike there, many copies of the game act at once,
as ours do, and the network is the one for MinAtar.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from modelkeep.rl.environments.vector import Environments
from modelkeep.rl.rainbow import RainbowSettings


class Noisy(nn.Module):
    """A linear layer with noise on every weight, drawn anew by `redraw`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_size = nn.Parameter(torch.full((outputs, inputs), 0.5 * bound))
        self.bias_size = nn.Parameter(torch.full((outputs,), 0.5 * bound))
        self.weight_noise, self.bias_noise = torch.randn(outputs, inputs), torch.randn(outputs)

    def redraw(self) -> None:
        self.weight_noise.normal_()
        self.bias_noise.normal_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight + self.weight_size * self.weight_noise
        return functional.linear(x, weight, self.bias + self.bias_size * self.bias_noise)


class Network(nn.Module):
    """The layers of `minatar_rainbow`; gives probabilities `(n, actions, atoms)`."""

    def __init__(self, channels: int, actions: int, atoms: int) -> None:
        super().__init__()
        self.shape = (actions, atoms)
        self.torso = nn.Sequential(nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten())
        self.value = nn.Sequential(Noisy(576, 64), nn.ReLU(), Noisy(64, atoms))
        self.advantage = nn.Sequential(Noisy(576, 64), nn.ReLU(), Noisy(64, actions * atoms))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.torso(x.float())
        advantage = self.advantage(hidden).view(-1, *self.shape)
        return torch.softmax(self.value(hidden)[:, None] + advantage - advantage.mean(1, keepdim=True), 2)

    def redraw(self) -> None:
        for part in self.modules():
            if isinstance(part, Noisy):
                part.redraw()


class Tree:
    """A binary tree over priorities that keeps their sum, or their minimum, at the root."""

    def __init__(self, size: int, combine: Any, empty: float) -> None:
        self.size, self.combine = size, combine
        self.nodes = np.full(2 * size, empty, dtype=np.float64)

    def set(self, index: int, value: float) -> None:
        node = index + self.size
        self.nodes[node] = value
        while node > 1:
            node //= 2
            self.nodes[node] = self.combine(self.nodes[2 * node], self.nodes[2 * node + 1])

    def find(self, mark: float) -> int:
        node = 1
        while node < self.size:
            node *= 2
            if mark > self.nodes[node]:
                mark -= self.nodes[node]
                node += 1
        return node - self.size


class RainbowByHand:
    """Acts in the environments, and updates its network as often as `settings` say."""

    def __init__(self, environments: Environments, settings: RainbowSettings, seed: int) -> None:
        self.environments, self.settings = environments, settings
        torch.manual_seed(seed)
        self.draw = np.random.default_rng(seed)
        shape, actions = environments.observation_shape, environments.actions
        self.network, self.target = (Network(shape[0], actions, settings.atoms) for _ in range(2))
        self.target.load_state_dict(self.network.state_dict())
        self.optimizer = torch.optim.Adam(self.network.parameters(), settings.learning_rate, eps=settings.adam_epsilon)
        self.support = torch.linspace(settings.lowest, settings.highest, settings.atoms)
        size = 2 ** (settings.capacity - 1).bit_length()
        self.sums, self.least = Tree(size, lambda a, b: a + b, 0.0), Tree(size, min, np.inf)
        self.now, self.later = (np.zeros((settings.capacity, *shape), np.uint8) for _ in range(2))
        self.actions, self.rewards = np.zeros(settings.capacity, np.int64), np.zeros(settings.capacity, np.float32)
        self.over = np.zeros(settings.capacity, np.float32)
        self.latest: list[deque[Any]] = [deque(maxlen=settings.n_step) for _ in range(environments.count)]
        self.at = self.held = self.steps = 0
        self.largest = 1.0
        self.observations = environments.reset(seed)

    def advance(self) -> int:
        """One step of all copies and the updates that are due."""
        before = self.steps
        with torch.no_grad():
            means = (self.network(torch.from_numpy(self.observations)) * self.support).sum(2)
        actions = means.argmax(1).numpy()
        stepped = self.environments.step(actions)
        for i, latest in enumerate(self.latest):
            latest.append((self.observations[i], actions[i], stepped.rewards[i], stepped.ended[i]))
            if len(latest) == self.settings.n_step:
                self.store(latest, stepped.observations[i])
            if stepped.ended[i]:
                latest.clear()
        self.observations = stepped.observations
        self.steps += self.environments.count
        if self.held >= self.settings.learning_starts:
            for _ in range(self.steps // self.settings.steps_per_update - before // self.settings.steps_per_update):
                self.update()
        if self.steps // self.settings.target_every > before // self.settings.target_every:
            self.target.load_state_dict(self.network.state_dict())
        return self.environments.count

    def store(self, latest: deque[Any], following: NDArray[np.uint8]) -> None:
        at, gamma = self.at, self.settings.discount
        self.now[at], self.actions[at] = latest[0][0], latest[0][1]
        self.rewards[at] = sum(gamma**k * step[2] for k, step in enumerate(latest))
        self.later[at], self.over[at] = following, latest[-1][3]
        self.prioritise(at, self.largest)
        self.at = (at + 1) % self.settings.capacity
        self.held = min(self.held + 1, self.settings.capacity)

    def prioritise(self, index: int, priority: float) -> None:
        self.largest = max(self.largest, priority)
        self.sums.set(index, priority**self.settings.priority_exponent)
        self.least.set(index, priority**self.settings.priority_exponent)

    def update(self) -> None:
        """One step of Adam on a batch that is drawn by priority."""
        settings, size = self.settings, self.settings.batch_size
        self.network.redraw()
        self.target.redraw()
        total = self.sums.nodes[1]
        indices = [self.sums.find(total * (i + self.draw.random()) / size) for i in range(size)]
        chances = np.array([self.sums.nodes[index + self.sums.size] for index in indices]) / total
        weights = (self.held * chances) ** -settings.correction
        weights /= (self.held * self.least.nodes[1] / total) ** -settings.correction
        later = torch.from_numpy(self.later[indices])
        rewards, over = torch.from_numpy(self.rewards[indices]), torch.from_numpy(self.over[indices])
        with torch.no_grad():
            best = (self.network(later) * self.support).sum(2).argmax(1)
            following = self.target(later)[torch.arange(size), best]
            moved = rewards[:, None] + settings.discount**settings.n_step * (1 - over)[:, None] * self.support
            spacing = (settings.highest - settings.lowest) / (settings.atoms - 1)
            place = (moved.clamp(settings.lowest, settings.highest) - settings.lowest) / spacing
            low = place.floor().clamp(max=settings.atoms - 2)
            wanted = torch.zeros_like(following)
            for row in range(size):
                wanted[row].index_add_(0, low[row].long(), (low + 1 - place)[row] * following[row])
                wanted[row].index_add_(0, low[row].long() + 1, (place - low)[row] * following[row])
        chosen = self.network(torch.from_numpy(self.now[indices]))[torch.arange(size), self.actions[indices]]
        losses = -(wanted * chosen.clamp(1e-5, 1 - 1e-5).log()).sum(1)
        self.optimizer.zero_grad()
        (losses * torch.from_numpy(weights.astype(np.float32))).mean().backward()
        self.optimizer.step()
        for index, loss in zip(indices, losses.tolist(), strict=True):
            self.prioritise(index, loss + 1e-6)
