"""RainbowSettings: everything that decides how Rainbow learns, as published for Atari and smaller for MinAtar."""

from __future__ import annotations

from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.rl.rainbow.frames import Keeping


@declare("agent", "rainbow", paper="Hessel2018, table 1", extra="rl")
class RainbowSettings:
    """Rainbow: double, dueling, distributional, noisy, prioritised and n-step Q-learning.

    The defaults are those of Hessel2018, table 1. Steps are agent steps: an Atari step is four frames.
    """

    learning_rate: float = setting("The learning rate of Adam.", default=6.25e-5, above=0)
    adam_epsilon: float = setting("The ε of Adam.", default=1.5e-4, above=0)
    batch_size: int = setting("Transitions per update.", default=32, at_least=1)
    discount: float = setting("The discount γ.", default=0.99, at_least=0, at_most=1)
    n_step: int = setting("Steps whose rewards a target sums.", default=3, at_least=1)
    atoms: int = setting("Atoms of a distribution over returns.", default=51, at_least=2)
    lowest: float = setting("v_min: the lowest atom.", default=-10.0)
    highest: float = setting("v_max: the highest atom.", default=10.0)
    capacity: int = setting("Transitions that the replay holds, of all copies.", default=1_000_000, at_least=1)
    learning_starts: int = setting("Transitions in the replay before the first update.", default=20_000, at_least=1)
    steps_per_update: int = setting("Environment steps between two updates.", default=4, at_least=1)
    target_every: int = setting("Steps between two copies to the target network.", default=8_000, at_least=1)
    priority_exponent: float = setting(
        "ω of Hessel2018, the α of Schaul2016: how far priorities decide.", default=0.5, at_least=0, at_most=1
    )
    correction: float = setting(
        "β of the importance weights at the start; it rises to 1.", default=0.4, at_least=0, at_most=1
    )
    correction_steps: int = setting("Steps within which β rises to 1.", default=50_000_000, at_least=1)
    clip_rewards: bool = setting("Whether rewards are clipped to [-1, 1].", default=True)
    keeping: Keeping = setting("How the replay stores observations.", default="newest frame")

    def __post_init__(self) -> None:
        if not self.lowest < self.highest:
            raise bad_parameter("RainbowSettings", "highest", f"above lowest, which is {self.lowest}", self.highest)
        if self.learning_starts > self.capacity:
            raise bad_parameter(
                "RainbowSettings", "learning_starts", f"at most the capacity, {self.capacity}", self.learning_starts
            )


ATARI = RainbowSettings()

# Half as many updates with twice the batch see as many transitions in three fifths of the time. The published ε is ten
# times the root mean square of most gradients of the small network's advantages, which it would all but stop.
MINATAR = RainbowSettings(
    learning_rate=5e-4,
    adam_epsilon=1e-6,
    batch_size=64,
    steps_per_update=8,
    lowest=-5.0,
    highest=30.0,
    capacity=100_000,
    learning_starts=2_000,
    target_every=2_000,
    correction_steps=500_000,
    clip_rewards=False,
    keeping="bits",
)
