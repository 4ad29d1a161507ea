"""Reinforcement learning: environments, agents, and the one loop in which they learn."""

from __future__ import annotations

from modelkeep.rl.a2c import A2C, A2CSettings
from modelkeep.rl.agent import Agent, Player
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.vector import Environments, StepResult
from modelkeep.rl.evaluation import play_episodes, random_player
from modelkeep.rl.impala.agent import Impala
from modelkeep.rl.impala.population import Population
from modelkeep.rl.impala.settings import ImpalaSettings
from modelkeep.rl.learning import Learned, learn
from modelkeep.rl.rainbow.agent import Rainbow
from modelkeep.rl.rainbow.settings import RainbowSettings

__all__ = [
    "A2C",
    "A2CSettings",
    "Agent",
    "Environments",
    "Impala",
    "ImpalaSettings",
    "Learned",
    "Player",
    "Population",
    "Rainbow",
    "RainbowSettings",
    "StepResult",
    "learn",
    "make",
    "play_episodes",
    "random_player",
]
