"""RainbowSettings: everything that decides how Rainbow learns, as published for Atari and smaller for MinAtar."""

from __future__ import annotations

from dataclasses import dataclass

from modelkeep.core.errors import bad_parameter
from modelkeep.rl.rainbow.frames import Keeping


@dataclass(frozen=True, kw_only=True)
class RainbowSettings:
    """The defaults are those of Hessel2018, table 1. Steps are agent steps: an Atari step is four frames."""

    learning_rate: float = 6.25e-5
    adam_epsilon: float = 1.5e-4
    batch_size: int = 32
    discount: float = 0.99
    n_step: int = 3
    atoms: int = 51
    lowest: float = -10.0  # v_min: the returns that the distributions are over
    highest: float = 10.0  # v_max
    capacity: int = 1_000_000  # transitions that the replay holds, of all copies together
    learning_starts: int = 20_000  # transitions in the replay before the first update
    steps_per_update: int = 4
    target_every: int = 8_000  # steps
    priority_exponent: float = 0.5  # Hessel2018's ω, the α of Schaul2016
    correction: float = 0.4  # β of the importance weights at the start; it rises to 1 …
    correction_steps: int = 50_000_000  # … within so many steps
    clip_rewards: bool = True  # to [-1, 1]
    keeping: Keeping = "newest frame"

    def __post_init__(self) -> None:
        for name in (
            "batch_size",
            "n_step",
            "capacity",
            "learning_starts",
            "steps_per_update",
            "target_every",
            "correction_steps",
        ):
            if getattr(self, name) < 1:
                raise bad_parameter("RainbowSettings", name, "at least 1", getattr(self, name))
        for name in ("discount", "priority_exponent", "correction"):
            if not 0 <= getattr(self, name) <= 1:
                raise bad_parameter("RainbowSettings", name, "between 0 and 1", getattr(self, name))
        for name in ("learning_rate", "adam_epsilon"):
            if not getattr(self, name) > 0:
                raise bad_parameter("RainbowSettings", name, "a number above 0", getattr(self, name))
        if self.atoms < 2:
            raise bad_parameter("RainbowSettings", "atoms", "at least 2", self.atoms)
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
