"""Model completion: how much training it takes to get the missing part of a model back (Martic2018).

Agents of reinforcement learning are completed in `modelkeep.completion.agents`, which needs the extra `rl`.
"""

from __future__ import annotations

from modelkeep.completion.curve import Curve, Ratio, ratio
from modelkeep.completion.hardness import Hardness, Retraining, measure_hardness
from modelkeep.completion.initialisation import SCHEMES, reset
from modelkeep.completion.modulation import Modulation, modulate
from modelkeep.completion.part import Part, parts_of
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures import PROCEDURES, Procedure, read_procedure
from modelkeep.completion.recording import Recording, record
from modelkeep.completion.retraining import RetrainedModel, train_and_measure, train_from_scratch

__all__ = [
    "PROCEDURES",
    "SCHEMES",
    "Curve",
    "Hardness",
    "Modulation",
    "Part",
    "Problem",
    "Procedure",
    "Ratio",
    "Recording",
    "RetrainedModel",
    "Retraining",
    "measure_hardness",
    "modulate",
    "parts_of",
    "ratio",
    "read_procedure",
    "record",
    "reset",
    "train_and_measure",
    "train_from_scratch",
]
