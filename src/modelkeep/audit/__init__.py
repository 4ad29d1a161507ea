"""The audit: runs the checks, ranks what they found, and writes a report that a person likes to read."""

from __future__ import annotations

from modelkeep.audit.audit import Audit, Settings, audit
from modelkeep.audit.explanations import Explanations, a_few, explanations
from modelkeep.audit.findings import Finding, Measure, Section
from modelkeep.audit.methods import METHODS, OF_FEATURE_MAPS, Method
from modelkeep.audit.picture import Picture
from modelkeep.audit.report import render, write, write_explanations

__all__ = [
    "METHODS",
    "OF_FEATURE_MAPS",
    "Audit",
    "Explanations",
    "Finding",
    "Measure",
    "Method",
    "Picture",
    "Section",
    "Settings",
    "a_few",
    "audit",
    "explanations",
    "render",
    "write",
    "write_explanations",
]
