"""Consent: what a party allows, checked at every pass, and how a person grants and withdraws it."""

from __future__ import annotations

from modelkeep.govern.consent.decision import Consenting
from modelkeep.govern.consent.policy import Policy, policy_of
from modelkeep.govern.consent.state import ConsentState, Waiting
from modelkeep.govern.consent.windows import Window

__all__ = ["ConsentState", "Consenting", "Policy", "Waiting", "Window", "policy_of"]
