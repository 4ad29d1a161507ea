"""A2C: A3C (Mnih2016) whose copies of the game act and learn together, in place of asynchronous threads."""

from __future__ import annotations

import copy
from math import isfinite

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from modelkeep.core.errors import InputError, TrainingError
from modelkeep.core.method import declare, setting
from modelkeep.rl.agent import Player
from modelkeep.rl.environments.vector import Environments, State, within
from modelkeep.rl.returns import n_step_returns
from modelkeep.training.batches import derive_seed


@declare("agent", "a2c", paper="Mnih2016; Martic2018, appendix A", extra="rl")
class A2CSettings:
    """A2C: an advantage actor-critic whose copies of the game act and learn together.

    The defaults are those of Martic2018, appendix A and, where it is silent, of Mnih2016. The learning rate falls
    linearly to 0 over `total` environment steps. The loss is a sum over the n `steps` and over all copies, as A3C's is
    over the steps of a thread: `epsilon` and `clip` refer to that sum.
    """

    total: int = setting("Environment steps over which the learning rate falls to 0.", default=50_000_000, at_least=1)
    learning_rate: float = setting("The learning rate of RMSProp at the start.", default=6e-4, above=0)
    steps: int = setting("Steps of each copy between two updates.", default=5, at_least=1)
    discount: float = setting("The discount γ.", default=0.99, at_least=0, at_most=1)
    entropy: float = setting("The weight of the policy's entropy in the loss.", default=0.01)
    value: float = setting("The weight of the value's error in the loss.", default=0.5)
    decay: float = setting("The decay of RMSProp's mean square.", default=0.99, at_least=0, at_most=1)
    epsilon: float = setting("Added to RMSProp's mean square.", default=0.1, above=0)
    clip: float = setting("The norm to which the gradient is scaled down.", default=40.0, above=0)
    clip_rewards: bool = setting("Whether rewards are clipped to [-1, 1].", default=True)


ATARI = A2CSettings()
# With ε = 0.1 steps are so small that they need the fifty million of Mnih2016; this is for runs of an hour.
ATARI_SHORT = A2CSettings(total=1_000_000, learning_rate=7e-4, epsilon=1e-5)
MINATAR = A2CSettings(total=500_000, learning_rate=5e-3, epsilon=0.01, clip_rewards=False)


class A2C:
    """An advantage actor-critic: the network maps observations to logits and values (`rl.networks`).

    >>> from modelkeep.rl.environments.catalogue import make
    >>> from modelkeep.rl.networks import minatar_actor_critic
    >>> agent = A2C(make("minatar/breakout", 16), minatar_actor_critic(channels=4, actions=3), MINATAR, seed=0)
    >>> agent.advance()
    80
    """

    def __init__(self, environments: Environments, network: nn.Module, settings: A2CSettings, seed: int) -> None:
        self.environments, self.network, self.settings = environments, network, settings
        trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
        if not trained:
            raise InputError("No parameter of the network requires a gradient, so there is nothing to learn.")
        self.optimizer = RMSProp(trained, settings.decay, settings.epsilon)
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "actions"))
        self.observations = environments.reset(derive_seed(seed, "environments"))
        self.taken = 0  # environment steps
        with torch.inference_mode():
            logits, values = network(torch.from_numpy(self.observations))
        count, actions = environments.count, environments.actions
        if logits.shape != (count, actions) or values.shape != (count,):
            raise InputError(
                f"For {count} copies of {environments.name} the network must give logits {(count, actions)} and values "
                f"{(count,)}. Got {tuple(logits.shape)} and {tuple(values.shape)}."
            )
        self.sums: dict[str, tuple[float, int]] = {}  # of what `metrics` gives the means of

    def advance(self) -> int:
        """n steps of every copy, then one update of the weights."""
        settings, count = self.settings, self.environments.count
        observations, actions, rewards, ended = [], [], [], []
        for _ in range(settings.steps):
            observations.append(self.observations)
            actions.append(sample_actions(self.network, self.observations, self.generator))
            stepped = self.environments.step(actions[-1])
            self.observations = stepped.observations
            rewards.append(stepped.rewards.clip(-1, 1) if settings.clip_rewards else stepped.rewards)
            ended.append(stepped.ended)
            self.note("returns", sum(stepped.returns), len(stepped.returns))
        with torch.inference_mode():
            _, bootstrap = self.network(torch.from_numpy(self.observations))
        returns = n_step_returns(np.stack(rewards), np.stack(ended), bootstrap.cpu().numpy(), settings.discount)
        self.learn(np.concatenate(observations), np.concatenate(actions), returns.ravel())
        self.taken += settings.steps * count
        return settings.steps * count

    def learn(self, observations: NDArray[np.uint8], actions: NDArray[np.int64], returns: NDArray[np.float32]) -> None:
        """Follow the gradient of −log π(a) (R − V) + c_v (R − V)² − c_e H(π), added up over steps and copies."""
        settings = self.settings
        logits, values = self.network(torch.from_numpy(observations))
        log_policy = logits.log_softmax(1)
        advantages = torch.from_numpy(returns).to(values.device) - values
        chosen = log_policy.gather(1, torch.from_numpy(actions).to(logits.device).unsqueeze(1)).squeeze(1)
        entropy = -(log_policy.exp() * log_policy).sum()
        errors = advantages.square().sum()
        loss = settings.value * errors - chosen.dot(advantages.detach()) - settings.entropy * entropy
        rate = settings.learning_rate * max(0.0, 1 - self.taken / settings.total)
        self.optimizer.step(loss, rate, settings.clip)
        count = len(observations)
        for name, total in (("loss", loss), ("entropy", entropy), ("value_error", errors)):
            self.note(name, total.item(), count)

    def player(self, seed: int) -> Player:
        """The policy as it is now: actions are drawn from it, not the likeliest ones taken."""
        network = copy.deepcopy(self.network)
        generator = torch.Generator().manual_seed(derive_seed(seed, "player"))
        return lambda observations, begun: sample_actions(network, observations, generator)

    def state(self) -> State:
        """Everything that decides how the training goes on."""
        tensors, values = self.environments.state()
        kept = {f"environments/{name}": tensor for name, tensor in tensors.items()}
        kept |= {f"network/{name}": tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        kept |= {f"squares/{name}": tensor.clone() for name, tensor in self.optimizer.squares.items()}
        kept["generator"] = self.generator.get_state()
        kept["observations"] = torch.from_numpy(self.observations.copy())
        return kept, {"environments": values, "taken": self.taken}

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        tensors, values = state

        self.environments.restore((within(tensors, "environments/"), values["environments"]))
        self.network.load_state_dict(within(tensors, "network/"))
        for name, square in within(tensors, "squares/").items():
            self.optimizer.squares[name].copy_(square)
        self.generator.set_state(tensors["generator"])
        self.observations = tensors["observations"].numpy().copy()
        self.taken = values["taken"]

    def note(self, name: str, total: float, count: int) -> None:
        """Add to what the next `metrics` tells."""
        before, counted = self.sums.get(name, (0.0, 0))
        self.sums[name] = before + total, counted + count

    def metrics(self) -> dict[str, float]:
        """Means since the last call; `returns` are those of the episodes that ended."""
        means = {name: total / count for name, (total, count) in self.sums.items() if count}
        self.sums = {}
        return means


class RMSProp:
    """RMSProp as DeepMind has it, with ε inside of the square root: θ ← θ − η ∆θ / √(g + ε), g the mean of ∆θ².

    Torch's adds ε to the root: with ε = 0.1 and small gradients that would be steps three times as long.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], decay: float, epsilon: float) -> None:
        self.parameters: list[torch.Tensor] = list(parameters.values())
        self.decay, self.epsilon = decay, epsilon
        self.squares = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}

    def step(self, loss: torch.Tensor, rate: float, clip: float) -> None:
        """One step along the gradient of the loss, which is shortened to the norm `clip`."""
        gradients = torch.autograd.grad(loss, self.parameters)
        norm = float(torch.stack(torch._foreach_norm(gradients)).norm())
        if not isfinite(norm):
            raise TrainingError("The gradient of the agent's loss is no longer finite. Lower the learning rate.")
        with torch.no_grad():
            if norm > clip:
                torch._foreach_mul_(gradients, clip / norm)
            squares = list(self.squares.values())
            torch._foreach_mul_(squares, self.decay)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - self.decay)
            roots = torch._foreach_add(squares, self.epsilon)
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(self.parameters, gradients, roots, -rate)


def sample_actions(
    network: nn.Module, observations: NDArray[np.uint8], generator: torch.Generator
) -> NDArray[np.int64]:
    """Actions drawn from the policy, one for each observation.

    The first of alarms that ring at the rates π(a|s) is a's with probability π(a|s); a third of multinomial's time.
    """
    with torch.inference_mode():
        logits, _ = network(torch.from_numpy(observations))
        policy = logits.softmax(1).cpu()
        alarms = torch.empty_like(policy).exponential_(generator=generator)
        actions: NDArray[np.int64] = (alarms / policy).argmin(1).numpy()
        return actions
