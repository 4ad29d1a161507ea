"""The retraining procedures: the paper's T1 to T4, and three that an attacker would try beyond them."""

from __future__ import annotations

from modelkeep.completion.initialise import SCHEMES
from modelkeep.completion.procedures.distilled import Distilled
from modelkeep.completion.procedures.initialised import Initialised
from modelkeep.completion.procedures.joint import Frozen, Joint
from modelkeep.completion.procedures.overparametrised import Overparametrised
from modelkeep.completion.procedures.procedure import Procedure
from modelkeep.completion.procedures.regressed import Regressed
from modelkeep.completion.procedures.searched import Searched

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
