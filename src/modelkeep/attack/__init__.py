"""Adversarial examples: inputs that look the same and are answered differently."""

from __future__ import annotations

from modelkeep.attack.attacked import Attacked
from modelkeep.attack.ball import Ball
from modelkeep.attack.pgd import pgd

__all__ = ["Attacked", "Ball", "pgd"]
