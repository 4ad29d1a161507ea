"""The retraining procedures: the paper's T1 to T4, and three that an attacker would try beyond them."""

from __future__ import annotations

from modelkeep.completion.initialisation import SCHEMES
from modelkeep.completion.procedures.distillation import Distilled
from modelkeep.completion.procedures.initialisation import Initialised
from modelkeep.completion.procedures.joint_training import Frozen, Joint
from modelkeep.completion.procedures.overparametrisation import Overparametrised
from modelkeep.completion.procedures.procedure import Procedure
from modelkeep.completion.procedures.rate_search import Searched
from modelkeep.completion.procedures.regression import Regressed

_ALL: tuple[Procedure, ...] = (
    Joint(),
    Frozen(),
    Overparametrised(),
    Overparametrised(between="relu"),
    *(Initialised(scheme) for scheme in SCHEMES),
    Distilled(),
    Regressed(),
    Searched(),
)
PROCEDURES = {procedure.name: procedure for procedure in _ALL}
"""By the names that tables, trials and commands call them."""

__all__ = [
    "PROCEDURES",
    "Distilled",
    "Frozen",
    "Initialised",
    "Joint",
    "Overparametrised",
    "Procedure",
    "Regressed",
    "Searched",
]
