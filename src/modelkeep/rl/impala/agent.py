"""IMPALA: actors that play with weights of a while ago, and a learner that corrects for it (Espeholt2018)."""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from modelkeep.core.errors import InputError, TrainingError
from modelkeep.rl.agent import Player
from modelkeep.rl.environments.vector import Environments, State, within
from modelkeep.rl.impala.actors import Actors, Unroll, tensors_of_unroll
from modelkeep.rl.impala.network import ImpalaNetwork
from modelkeep.rl.impala.settings import EVOLVED, ImpalaSettings
from modelkeep.rl.impala.vtrace import vtrace
from modelkeep.training.part import load_into, tensors_of


class Impala:
    """One agent that learns all levels jointly.

    In the paper actors and learner run side by side, and a queue of unrolls is between them. Here they take turns in
    one process, so that a run can be repeated: an unroll waits in the queue for `settings.lag` updates, and so was
    its weights are that many updates old when the learner uses it.

    >>> from modelkeep.rl.environments.catalogue import make
    >>> from modelkeep.rl.impala.network import minatar_network
    >>> games = make("minatar/breakout", 2)
    >>> network = minatar_network(games.observation_shape, games.actions)
    >>> agent = Impala([games], network, ImpalaSettings(unroll=5), seed=0)
    >>> agent.advance()
    10
    """

    def __init__(
        self, environments: Sequence[Environments], network: ImpalaNetwork, settings: ImpalaSettings, seed: int
    ) -> None:
        self.network, self.settings = network, settings
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        if not trained:
            raise InputError("The network has no parameter that requires a gradient: there is nothing to train.")
        self.optimizer = torch.optim.RMSprop(trained, lr=settings.learning_rate, alpha=settings.decay)
        self.actors = Actors(environments, network, seed)
        self.queue: deque[Unroll] = deque()
        self.taken = 0  # environment steps
        self._sums: Counter[str] = Counter()
        self._updates = 0

    def advance(self) -> int:
        """The actors add an unroll to the queue, and the learner takes the one that has waited for long enough."""
        self.queue.append(self.actors.unroll(self.network, self.settings.unroll))
        if len(self.queue) > self.settings.lag:
            self.learn(self.queue.popleft().to(self.actors.device))
        steps = self.settings.unroll * self.actors.copies
        self.taken += steps
        return steps

    def learn(self, unroll: Unroll) -> None:
        """One update of the value and the policy, by V-trace's targets (Espeholt2018, section 4.2)."""
        settings = self.settings
        logits, values, _ = self.network(unroll.observations, unroll.begun, (unroll.output, unroll.cell))
        log_policy = logits[:-1].log_softmax(2)
        log_pi = log_policy.gather(2, unroll.actions[..., None]).squeeze(2)
        targets = vtrace(
            log_pi - unroll.log_mu,
            settings.shape_rewards(unroll.rewards),
            settings.discount * ~unroll.begun[1:],
            values[:-1],
            values[-1],
        )
        policy_loss = -(targets.advantages * log_pi).sum()
        value_loss = 0.5 * (targets.values - values[:-1]).square().sum()
        entropy = -(log_policy.exp() * log_policy).sum()
        loss = policy_loss + settings.baseline_cost * value_loss - settings.entropy_cost * entropy
        if not loss.isfinite():
            raise TrainingError(
                f"The loss of IMPALA became {loss.item()}. A smaller learning rate than {settings.learning_rate} or a "
                f"larger epsilon than {settings.epsilon} may help."
            )
        left = 1.0 if settings.total is None else max(0.0, 1 - self.taken / settings.total)
        for group in self.optimizer.param_groups:  # a population changes them while it learns
            group["lr"], group["eps"] = left * settings.learning_rate, settings.epsilon
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), settings.gradient_norm)
        self.optimizer.step()
        self._updates += 1
        steps = unroll.actions.numel()
        for name, part in (("policy loss", policy_loss), ("value loss", value_loss), ("entropy", entropy)):
            self._sums[name] += part.item() / steps

    def player(self, seed: int) -> Player:
        """The policy as it is now; it draws its actions, as in training."""
        network = copy.deepcopy(self.network)
        generator = torch.Generator().manual_seed(seed)
        memory = network.blank(0)

        @torch.no_grad()
        def play(observations: NDArray[np.uint8], begun: NDArray[np.bool_]) -> NDArray[np.int64]:
            nonlocal memory
            if len(memory[0]) != len(observations):
                memory = network.blank(len(observations))
            logits, _, memory = network(torch.from_numpy(observations)[None], torch.from_numpy(begun)[None], memory)
            policy = logits[0].softmax(1).cpu()
            actions: NDArray[np.int64] = torch.multinomial(policy, 1, generator=generator)[:, 0].numpy()
            return actions

        return play

    def scores(self) -> tuple[float, ...] | None:
        """The mean return of the latest episodes of each level; None before all have ended one."""
        if not all(self.actors.returns):
            return None
        return tuple(float(np.mean(returns)) for returns in self.actors.returns)

    def inherit(self, parent: Impala, values: Mapping[str, float]) -> None:
        """Go on with the parent's weights and optimizer, and with new values of some settings."""
        load_into(self.network, tensors_of(parent.network))
        self.optimizer.load_state_dict(copy.deepcopy(parent.optimizer.state_dict()))
        self.settings = self.settings.with_values(values)
        for returns in self.actors.returns:
            returns.clear()

    def state(self) -> State:
        """Weights, optimizer, actors with their environments, the queue, and what a population changed."""
        actors, values = self.actors.state()
        tensors = {f"network/{name}": tensor for name, tensor in tensors_of(self.network).items()}
        tensors |= {f"actors/{name}": tensor for name, tensor in actors.items()}
        for i, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{i}/{name}": tensor for name, tensor in moments.items()}
        for i, unroll in enumerate(self.queue):
            tensors |= {f"queue/{i}/{name}": tensor for name, tensor in tensors_of_unroll(unroll).items()}
        kept = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        return kept, {
            "actors": values,
            "waiting": len(self.queue),
            # All of them: a population is known by its members' states, and theirs may differ in more than it changes.
            "settings": asdict(self.settings),
            "taken": self.taken,
        }

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        tensors, values = {name: tensor.clone() for name, tensor in state[0].items()}, state[1]
        load_into(self.network, within(tensors, "network/"))
        optimizer = self.optimizer.state_dict()
        optimizer["state"] = {}
        for name, tensor in within(tensors, "optimizer/").items():
            i, _, moment = name.partition("/")
            optimizer["state"].setdefault(int(i), {})[moment] = tensor
        self.optimizer.load_state_dict(optimizer)
        self.actors.restore((within(tensors, "actors/"), values["actors"]))
        self.queue = deque(Unroll(**within(tensors, f"queue/{i}/")) for i in range(values["waiting"]))
        self.settings = self.settings.with_values({name: values["settings"][name] for name in EVOLVED})
        self.taken = values["taken"]

    def metrics(self) -> dict[str, float]:
        """Per step, the two losses and the entropy, since the last call; and the mean of the scores."""
        found = {name: total / self._updates for name, total in self._sums.items()}
        self._sums, self._updates = Counter(), 0
        scores = self.scores()
        return found if scores is None else found | {"score": float(np.mean(scores))}
