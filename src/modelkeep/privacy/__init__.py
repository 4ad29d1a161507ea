"""Privacy: what a model gives away about its training data, and training that bounds it."""

from __future__ import annotations

from modelkeep.privacy.private_training import DPSGD, PrivatelyTrained

__all__ = ["DPSGD", "PrivatelyTrained"]
