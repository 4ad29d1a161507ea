"""The retraining procedures: T1 to T4 of Martic2018, and three more that an attacker would try."""

from __future__ import annotations

from modelkeep.completion.procedures.procedure import Procedure
from modelkeep.completion.procedures.table import PROCEDURES, read_procedure

__all__ = ["PROCEDURES", "Procedure", "read_procedure"]
