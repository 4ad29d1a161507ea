"""Consent: what a party allows, checked at every pass, and how a person grants and withdraws it."""

from __future__ import annotations

from modelkeep.govern.consent.board import Approval, Board
from modelkeep.govern.consent.decision import ConsentDecision
from modelkeep.govern.consent.policy import Policy, Rate, read_policy
from modelkeep.govern.consent.state import ConsentState, Waiting
from modelkeep.govern.consent.windows import Window

__all__ = [
    "Approval",
    "Board",
    "ConsentDecision",
    "ConsentState",
    "Policy",
    "Rate",
    "Waiting",
    "Window",
    "read_policy",
]
