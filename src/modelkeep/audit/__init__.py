"""The audit: runs the checks, ranks what they found, and writes a report that a person likes to read."""

from __future__ import annotations

from modelkeep.audit.audit import Audit, Settings, audit
from modelkeep.audit.findings import Finding, Measure, Picture, Section
from modelkeep.audit.report import render, write

__all__ = ["Audit", "Finding", "Measure", "Picture", "Section", "Settings", "audit", "render", "write"]
