"""IMPALA (Espeholt2018): actors and a learner, V-trace between them, and populations of both."""

from __future__ import annotations

from modelkeep.rl.impala.agent import Impala
from modelkeep.rl.impala.network import ImpalaNetwork, minatar_network
from modelkeep.rl.impala.population import Population, PopulationSettings
from modelkeep.rl.impala.settings import ATARI, LAB, MINATAR, ImpalaSettings

__all__ = [
    "ATARI",
    "LAB",
    "MINATAR",
    "Impala",
    "ImpalaNetwork",
    "ImpalaSettings",
    "Population",
    "PopulationSettings",
    "minatar_network",
]
