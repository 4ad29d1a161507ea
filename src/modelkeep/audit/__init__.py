"""The audit: runs the checks, ranks what they found, and writes a report that a person likes to read."""

from __future__ import annotations

from modelkeep.audit.attacks import AttackReport
from modelkeep.audit.audit import Audit, Settings, audit
from modelkeep.audit.bias import Bias, Mitigation, bias
from modelkeep.audit.explanations import Explanations, a_few, explanations, usual_quantities
from modelkeep.audit.findings import Finding, Measure, Section
from modelkeep.audit.hardening import hardening_verdict
from modelkeep.audit.methods import METHODS, OF_FEATURE_MAPS, Method
from modelkeep.audit.picture import Picture
from modelkeep.audit.report import render, write, write_attack, write_bias, write_explanations, write_hardening

__all__ = [
    "METHODS",
    "OF_FEATURE_MAPS",
    "AttackReport",
    "Audit",
    "Bias",
    "Explanations",
    "Finding",
    "Measure",
    "Method",
    "Mitigation",
    "Picture",
    "Section",
    "Settings",
    "a_few",
    "audit",
    "bias",
    "explanations",
    "hardening_verdict",
    "render",
    "usual_quantities",
    "write",
    "write_attack",
    "write_bias",
    "write_explanations",
    "write_hardening",
]
