"""Rainbow (Hessel2018): double, dueling, distributional, noisy, prioritised and n-step Q-learning."""

from modelkeep.rl.rainbow.agent import Rainbow
from modelkeep.rl.rainbow.network import RainbowNetwork, atari_rainbow, minatar_rainbow
from modelkeep.rl.rainbow.replay import Replay
from modelkeep.rl.rainbow.settings import ATARI, MINATAR, RainbowSettings

__all__ = [
    "ATARI",
    "MINATAR",
    "Rainbow",
    "RainbowNetwork",
    "RainbowSettings",
    "Replay",
    "atari_rainbow",
    "minatar_rainbow",
]
