"""Private training: DP-SGD in the one loop, as fast as the layers' structure allows, and its accounting."""

from __future__ import annotations

from modelkeep.privacy.private_training.accounting import advantage_bounds, epsilon_of, noise_for
from modelkeep.privacy.private_training.dp_sgd import DPSGD, PrivatelyTrained
from modelkeep.privacy.private_training.objective import PrivateGradients
from modelkeep.privacy.private_training.one_run import AuditedEpsilon, AuditEpsilon

__all__ = [
    "DPSGD",
    "AuditEpsilon",
    "AuditedEpsilon",
    "PrivateGradients",
    "PrivatelyTrained",
    "advantage_bounds",
    "epsilon_of",
    "noise_for",
]
