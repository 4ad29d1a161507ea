"""Adversarial examples: inputs that look the same and are answered differently."""

from __future__ import annotations

from modelkeep.attack.attacked import Attacked
from modelkeep.attack.ball import Ball
from modelkeep.attack.case import LEAST_LIKELY, Case, Search, Target
from modelkeep.attack.gradient.pgd import pgd

__all__ = ["LEAST_LIKELY", "Attacked", "Ball", "Case", "Search", "Target", "pgd"]
