"""How fast agents learn on MinAtar's Breakout, on one thread: our A2C against Stable-Baselines3's, and our Rainbow
against one that is written the usual way (`_rainbow_by_hand`). Rivals have the same layers, environments and settings.

`floor` figures are of the passes alone: what the network takes of A2C's time, forwards and backwards, without games,
returns, clipping or optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from _measure import arguments, interleaved, report
from _rainbow_by_hand import RainbowByHand
from modelkeep.rl import a2c, rainbow
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.vector import Environments
from modelkeep.rl.networks import minatar_actor_critic

COPIES, ROUND = 16, 8_000  # frames that each rival takes in its turn
UPDATES = 200  # of Rainbow, likewise
NETWORK = {"channels": 4, "actions": 3}


def games() -> Environments:
    return make("minatar/breakout", COPIES)


def ours(seed: int) -> Callable[[], object]:
    """A round of our A2C."""
    torch.manual_seed(seed)
    agent = a2c.A2C(games(), minatar_actor_critic(**NETWORK), a2c.MINATAR, seed)
    return lambda: [agent.advance() for _ in range(ROUND // (COPIES * a2c.MINATAR.steps))]


def peer(seed: int) -> Callable[[], object]:
    """A round of Stable-Baselines3's A2C with the same torso as its features extractor, and nothing after it."""
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3 import A2C
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv

    class Adapted(VecEnv):  # type: ignore[misc, unused-ignore]
        """Our environments as Stable-Baselines3 wants them."""

        def __init__(self) -> None:
            self.inner = games()
            self.infos: list[dict[str, Any]] = [{} for _ in range(COPIES)]
            space = Box(0, 1, self.inner.observation_shape, np.uint8)
            super().__init__(COPIES, space, Discrete(self.inner.actions))

        def reset(self) -> Any:
            return self.inner.reset(seed)

        def step_async(self, actions: Any) -> None:
            self.chosen = actions

        def step_wait(self) -> Any:
            stepped = self.inner.step(self.chosen)
            return stepped.observations, stepped.rewards, stepped.ended, self.infos

        def close(self) -> None: ...

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * COPIES

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return [None] * COPIES

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * COPIES

    class Extractor(BaseFeaturesExtractor):  # type: ignore[misc, unused-ignore]
        def __init__(self, space: Box) -> None:
            super().__init__(space, 128)
            own = minatar_actor_critic(**NETWORK)
            layers = [own.get_submodule(name) for name in ("conv1", "conv2", "linear")]
            self.layers = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), nn.Flatten(), layers[2], nn.ReLU())

        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            made = self.layers(observations)
            assert isinstance(made, torch.Tensor)
            return made

    policy = {"features_extractor_class": Extractor, "net_arch": [], "normalize_images": False}
    agent = A2C("CnnPolicy", Adapted(), n_steps=a2c.MINATAR.steps, policy_kwargs=policy, seed=seed, device="cpu")
    return lambda: agent.learn(ROUND, reset_num_timesteps=False, log_interval=10**9)


def passes(seed: int) -> Callable[[], object]:
    """The network's part of a round: n forwards to act, one for V(s_n), and one with its backward to learn."""
    torch.manual_seed(seed)
    network, steps = minatar_actor_critic(**NETWORK), a2c.MINATAR.steps
    parameters = list(network.parameters())
    acting, learning = (torch.randint(0, 2, (n, 4, 10, 10), dtype=torch.uint8) for n in (COPIES, COPIES * steps))

    def run() -> None:
        for _ in range(ROUND // (COPIES * steps)):
            with torch.inference_mode():
                for _ in range(steps + 1):
                    network(acting)
            logits, values = network(learning)
            torch.autograd.grad(logits.sum() + values.sum(), parameters)

    return run


def rainbows(seed: int) -> dict[str, Callable[[], object]]:
    """`UPDATES` updates of our Rainbow and of the usual one, the steps between them included."""
    settings = replace(rainbow.MINATAR, learning_starts=500)
    torch.manual_seed(seed)
    agent = rainbow.Rainbow(games(), rainbow.minatar_rainbow(**NETWORK), settings, seed)
    by_hand = RainbowByHand(games(), settings, seed)
    for rival in (agent, by_hand):  # until both have surely begun to learn
        for _ in range(2 * settings.learning_starts // COPIES):
            rival.advance()
    advances = UPDATES * settings.steps_per_update // COPIES
    return {
        "ours": lambda: [agent.advance() for _ in range(advances)],
        "peer": lambda: [by_hand.advance() for _ in range(advances)],
    }


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    seed, repeats = options.seed, options.repeats
    taken = interleaved({"ours": ours(seed), "peer": peer(seed), "floor": passes(seed)}, repeats=repeats)
    updates = interleaved(rainbows(seed), repeats=repeats)
    report(
        {
            "a2c_frames_per_s_over_sb3": taken["peer"] / taken["ours"],
            "a2c_frames_per_s": ROUND / taken["ours"],
            "sb3_frames_per_s": ROUND / taken["peer"],
            "a2c_floor_frames_per_s": ROUND / taken["floor"],
            "a2c_time_over_floor": taken["ours"] / taken["floor"],
            "rainbow_updates_per_s_over_peer": updates["peer"] / updates["ours"],
            "rainbow_updates_per_s": UPDATES / updates["ours"],
            "peer_rainbow_updates_per_s": UPDATES / updates["peer"],
        },
        options.json,
    )


if __name__ == "__main__":
    main()
