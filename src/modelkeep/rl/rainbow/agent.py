"""Rainbow: the agent of Hessel2018, which learns distributions over returns from replayed transitions."""

from __future__ import annotations

import copy
from math import isfinite

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import InputError, TrainingError
from modelkeep.rl.agent import Player
from modelkeep.rl.environments.vector import Environments, State, within
from modelkeep.rl.rainbow.distribution import mean, project
from modelkeep.rl.rainbow.network import RainbowNetwork
from modelkeep.rl.rainbow.replay import Batch, Replay
from modelkeep.rl.rainbow.settings import RainbowSettings
from modelkeep.training.batches import derive_seed


class Rainbow:
    """Learns in `environments` and trains those parameters of `network` that require a gradient when it is made.

    With the `replay` of another agent it starts with a copy of that one's experience, priorities included, and so can
    learn from the first step; otherwise it starts with none.

    >>> from modelkeep.rl.environments.catalogue import make
    >>> from modelkeep.rl.rainbow import MINATAR, minatar_rainbow
    >>> games = make("minatar/breakout", 8)
    >>> agent = Rainbow(games, minatar_rainbow(channels=4, actions=games.actions), MINATAR, seed=0)
    >>> agent.advance()
    8
    """

    def __init__(
        self,
        environments: Environments,
        network: RainbowNetwork,
        settings: RainbowSettings,
        seed: int,
        *,
        replay: Replay | None = None,
    ) -> None:
        _check(environments, network, settings, replay)
        self.environments, self.network, self.settings = environments, network, settings
        self.target = copy.deepcopy(network).requires_grad_(False)
        if replay is None:
            self.replay = Replay(settings, environments.count, environments.observation_shape)
        else:
            self.replay = replay.copy_for_another()
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        if not trained:
            raise InputError("No parameter of the network requires a gradient, so there is nothing to learn.")
        self.optimizer = torch.optim.Adam(trained, settings.learning_rate, eps=settings.adam_epsilon, fused=True)
        self.device = trained[0].device
        self.support = torch.linspace(settings.lowest, settings.highest, settings.atoms, device=self.device)
        self.noise = torch.Generator().manual_seed(derive_seed(seed, "noise"))
        self.random = np.random.default_rng(derive_seed(seed, "replay"))
        self.observations = environments.reset(derive_seed(seed, "environments"))
        self.steps = 0
        self._noted: dict[str, list[float]] = {"loss": [], "returns": []}

    def advance(self) -> int:
        """One step of all copies, and the updates that are due then."""
        before, count = self.steps, self.environments.count
        actions = self._greedy(self.network, self.observations, self.noise)
        stepped = self.environments.step(actions)
        rewards = stepped.rewards.clip(-1, 1) if self.settings.clip_rewards else stepped.rewards
        self.replay.add(self.observations, actions, rewards, stepped.ended)
        self.observations = stepped.observations
        self._noted["returns"] += stepped.returns
        self.steps += count
        if len(self.replay) >= self.settings.learning_starts and self.replay.tree.total > 0:
            every = self.settings.steps_per_update
            for _ in range(self.steps // every - before // every):
                self._update()
        if self.steps // self.settings.target_every > before // self.settings.target_every:
            self.target.load_state_dict(self.network.state_dict())
        return count

    def _update(self) -> None:
        """One step of Adam on a batch of the replay."""
        correction = self.settings.correction
        correction += (1 - correction) * min(1.0, self.steps / self.settings.correction_steps)
        batch = self.replay.sample(self.settings.batch_size, correction, self.random).to(self.device)
        wanted = self.target_distributions(batch)
        logits = self.network(batch.observations, self.noise)
        predicted = logits[torch.arange(len(wanted), device=self.device), batch.actions].log_softmax(dim=1)
        # The Kullback-Leibler divergence from the target, which is also the priority (Hessel2018, section 3).
        divergence = (torch.xlogy(wanted, wanted) - wanted * predicted).sum(dim=1)
        loss = (batch.weights * divergence).mean()
        if not isfinite(loss.item()):
            raise TrainingError(
                f"Rainbow's loss is {loss.item()} after {self.steps:,} steps, so learning cannot go on. "
                f"Try a learning rate below {self.settings.learning_rate}."
            )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.replay.prioritise(batch.indices, divergence.detach().clamp(min=0).double().cpu().numpy())
        self._noted["loss"].append(loss.item())

    @torch.no_grad()
    def target_distributions(self, batch: Batch) -> torch.Tensor:
        """The target distributions `(n, atoms)`: the target network's, of the action that the network prefers."""
        preferred = mean(self.network(batch.next_observations, self.noise).softmax(dim=2), self.support).argmax(dim=1)
        rows = torch.arange(len(preferred), device=self.device)
        logits = self.target(batch.next_observations, self.noise)[rows, preferred]
        return project(logits.softmax(dim=1), batch.returns, batch.discounts, self.support)

    @torch.inference_mode()
    def _greedy(
        self, network: RainbowNetwork, observations: NDArray[np.uint8], noise: torch.Generator | None
    ) -> NDArray[np.int64]:
        probabilities = network(torch.from_numpy(observations), noise).softmax(dim=2)
        return mean(probabilities, self.support).argmax(dim=1).cpu().numpy()

    def player(self, seed: int) -> Player:
        """The greedy policy as it is now, without noise."""
        network = copy.deepcopy(self.network)
        return lambda observations, begun: self._greedy(network, observations, None)

    def metrics(self) -> dict[str, float]:
        """Means since the last call; `returns` are those of the episodes that ended."""
        means = {name: float(np.mean(noted)) for name, noted in self._noted.items() if noted}
        self._noted = {"loss": [], "returns": []}
        return means

    def state(self) -> State:
        """Everything that decides how the training goes on."""
        games, game_values = self.environments.state()
        replay, replay_values = self.replay.state()
        tensors = {f"game.{name}": tensor for name, tensor in games.items()}
        tensors |= {f"replay.{name}": tensor for name, tensor in replay.items()}
        tensors |= {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"target.{name}": tensor for name, tensor in self.target.state_dict().items()}
        for i, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": tensor for name, tensor in moments.items()}
        tensors |= {"noise": self.noise.get_state(), "observations": torch.from_numpy(self.observations)}
        values = {"game": game_values, "replay": replay_values, "steps": self.steps}
        values["random"] = self.random.bit_generator.state
        return {name: tensor.clone() for name, tensor in tensors.items()}, values  # training changes them in place

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        tensors, values = {name: tensor.clone() for name, tensor in state[0].items()}, state[1]
        self.environments.restore((within(tensors, "game."), values["game"]))
        self.replay.restore((within(tensors, "replay."), values["replay"]))
        self.network.load_state_dict(within(tensors, "network."))
        self.target.load_state_dict(within(tensors, "target."))
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for key, tensor in within(tensors, "optimizer.").items():
            index, name = key.split(".")
            moments.setdefault(int(index), {})[name] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        self.noise.set_state(tensors["noise"])
        self.observations = tensors["observations"].numpy().copy()
        self.random.bit_generator.state = values["random"]
        self.steps = values["steps"]


def _check(
    environments: Environments, network: RainbowNetwork, settings: RainbowSettings, replay: Replay | None
) -> None:
    if (network.actions, network.atoms) != (environments.actions, settings.atoms):
        raise InputError(
            f"The network is for {network.actions} actions and {network.atoms} atoms, but {environments.name} has "
            f"{environments.actions} actions and the settings say {settings.atoms} atoms. Make another network."
        )
    own = (settings, environments.count, environments.observation_shape)
    if replay is not None and (replay.settings, replay.count, replay.shape) != own:
        raise InputError(
            "The replay was kept under other settings, for another number of copies or another shape of observations. "
            f"It is for {replay.count} copies of {replay.shape}, and this agent has {environments.count} of "
            f"{environments.observation_shape}. Make the agent as the one was made whose replay it is."
        )
