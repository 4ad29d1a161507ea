"""Consent: what a party allows, checked at every pass, and how a person grants and withdraws it."""

from __future__ import annotations

from modelkeep.govern.consent.decision import ConsentDecision
from modelkeep.govern.consent.policy import Policy, read_policy
from modelkeep.govern.consent.state import ConsentState, Waiting
from modelkeep.govern.consent.windows import Window

__all__ = ["ConsentDecision", "ConsentState", "Policy", "Waiting", "Window", "read_policy"]
