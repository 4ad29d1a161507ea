"""ImpalaSettings: how IMPALA learns, with the settings for DeepMind Lab, for Atari and for MinAtar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from torch import Tensor

from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import declare, setting

EVOLVED = ("entropy_cost", "learning_rate", "epsilon")
"""What population-based training changes while an agent learns."""


@declare("agent", "impala", paper="Espeholt2018", extra="rl")
class ImpalaSettings:
    """IMPALA: actors that play with older weights, and a learner that corrects for it by V-trace.

    The losses are summed over an unroll's steps and over all copies, as the authors do: the gradient's norm and the
    costs refer to that sum.
    """

    learning_rate: float = setting("The learning rate of RMSProp.", default=6e-4, above=0)
    entropy_cost: float = setting("The weight of the policy's entropy in the loss.", default=0.01, at_least=0)
    epsilon: float = setting("Added to the root of RMSProp's mean square (torch's RMSprop).", default=0.01, above=0)
    decay: float = setting("The decay of RMSProp's mean square.", default=0.99, at_least=0, at_most=1)
    baseline_cost: float = setting("The weight of the value's error in the loss.", default=0.5, at_least=0)
    discount: float = setting("The discount γ.", default=0.99, at_least=0, at_most=1)
    unroll: int = setting("Steps of each copy between two updates.", default=20, at_least=1)
    lag: int = setting("Updates by which the actors' weights are behind; 0 is on-policy.", default=1, at_least=0)
    total: int | None = setting(
        "Environment steps over which the learning rate falls to 0; None: it stays.", default=None, at_least=1
    )
    gradient_norm: float = setting("The norm to which the gradient is scaled down.", default=40.0, above=0)
    reward: Literal["raw", "clipped", "optimistic"] = setting(
        "How rewards are shaped before learning.", default="clipped", choices=("raw", "clipped", "optimistic")
    )

    def with_values(self, values: Mapping[str, float]) -> ImpalaSettings:
        """The same but for these values, of those that a population changes.

        >>> ImpalaSettings().with_values({"entropy_cost": 0.02}).entropy_cost
        0.02
        """
        if not values.keys() <= set(EVOLVED):
            raise bad_parameter("with_values", "values", f"by name, of {', '.join(EVOLVED)}", dict(values))
        return replace(self, **values)  # type: ignore[arg-type]

    def shape_rewards(self, rewards: Tensor) -> Tensor:
        """The rewards that the learner uses: as they are, clipped to ±1, or 0.3·min(tanh r, 0) + 5·max(tanh r, 0)."""
        if self.reward == "raw":
            return rewards
        if self.reward == "clipped":
            return rewards.clamp(-1, 1)
        squeezed = rewards.tanh()
        return 0.3 * squeezed.clamp(max=0) + 5 * squeezed.clamp(min=0)


ATARI = ImpalaSettings(total=50_000_000)
"""The settings of Espeholt2018 for Atari: 200 million frames."""

LAB = ImpalaSettings(learning_rate=4.8e-4, entropy_cost=2.5e-4, epsilon=0.1, unroll=100, reward="optimistic")
"""The settings of Espeholt2018 for DeepMind Lab. The first three are those of its code; in the papers populations find
them."""

MINATAR = ImpalaSettings(learning_rate=2e-3, entropy_cost=5e-3, unroll=10, total=500_000)
"""For 32 copies of a MinAtar game and `minatar_network`. The entropy cost was chosen at a constant learning rate: with
0.001 the agent forgot Breakout again, with ATARI's 0.01 it learned Asterix more slowly."""
