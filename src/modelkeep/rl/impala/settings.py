"""Settings of IMPALA, and those that were used for DeepMind Lab, for Atari and here for MinAtar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from modelkeep.core.errors import bad_parameter

EVOLVED = ("entropy_cost", "learning_rate", "epsilon")
"""What population-based training changes while an agent learns."""


@dataclass(frozen=True)
class Settings:
    """What decides how IMPALA learns, apart from its network and its environments.

    The losses are summed over an unroll's steps and over all copies, as the authors do: that is what the gradient's
    norm and the costs are relative to. `epsilon` is added outside of RMSProp's root (torch's RMSprop).
    """

    learning_rate: float = 6e-4
    entropy_cost: float = 0.01
    epsilon: float = 0.01
    decay: float = 0.99
    baseline_cost: float = 0.5
    discount: float = 0.99
    unroll: int = 20
    """Steps of each copy between two updates."""
    lag: int = 1
    """How many updates the actors' weights are behind the learner's; 0 is on-policy."""
    total: int | None = None
    """Environment steps over which the learning rate falls linearly to 0; None: it stays."""
    gradient_norm: float = 40.0
    """The gradient is scaled down to it."""
    reward: Literal["raw", "clipped", "optimistic"] = "clipped"

    def __post_init__(self) -> None:
        for name in ("learning_rate", "epsilon", "gradient_norm"):
            if not getattr(self, name) > 0:
                raise bad_parameter("Settings", name, "a number above 0", getattr(self, name))
        for name in ("entropy_cost", "baseline_cost"):
            if not getattr(self, name) >= 0:
                raise bad_parameter("Settings", name, "a number of at least 0", getattr(self, name))
        for name in ("decay", "discount"):
            if not 0 <= getattr(self, name) <= 1:
                raise bad_parameter("Settings", name, "between 0 and 1", getattr(self, name))
        for name, least in (("unroll", 1), ("lag", 0), ("total", 1)):
            if (value := getattr(self, name)) is not None and value < least:
                raise bad_parameter("Settings", name, f"an integer of at least {least}", getattr(self, name))
        if self.reward not in ("raw", "clipped", "optimistic"):
            raise bad_parameter("Settings", "reward", "'raw', 'clipped' or 'optimistic'", self.reward)

    def evolved(self, values: Mapping[str, float]) -> Settings:
        """The same but for these values, of those that a population changes.

        >>> Settings().evolved({"entropy_cost": 0.02}).entropy_cost
        0.02
        """
        if not values.keys() <= set(EVOLVED):
            raise bad_parameter("evolved", "values", f"by name, of {', '.join(EVOLVED)}", dict(values))
        return replace(self, **values)  # type: ignore[arg-type]

    def shaped(self, rewards: Tensor) -> Tensor:
        """The rewards that are learned from: as they are, clipped to ±1, or 0.3·min(tanh r, 0) + 5·max(tanh r, 0)."""
        if self.reward == "raw":
            return rewards
        if self.reward == "clipped":
            return rewards.clamp(-1, 1)
        squeezed = rewards.tanh()
        return 0.3 * squeezed.clamp(max=0) + 5 * squeezed.clamp(min=0)


ATARI = Settings(total=50_000_000)
"""Espeholt2018's for Atari: 200 million frames."""

LAB = Settings(learning_rate=4.8e-4, entropy_cost=2.5e-4, epsilon=0.1, unroll=100, reward="optimistic")
"""Espeholt2018's for DeepMind Lab. The first three are those of their code; in the papers populations find them."""

MINATAR = Settings(learning_rate=2e-3, entropy_cost=5e-3, unroll=10, total=500_000)
"""For 32 copies of a MinAtar game and `minatar_network`. The entropy cost was chosen at a constant learning rate: with
0.001 Breakout was forgotten again, with ATARI's 0.01 Asterix was not learned so soon."""
