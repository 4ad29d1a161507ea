"""The audit: runs the checks, ranks what they found, and writes a report that a person likes to read."""

from __future__ import annotations

from modelkeep.audit.audit import Audit, audit
from modelkeep.audit.findings import Finding, Section
from modelkeep.audit.page import audit_page
from modelkeep.audit.settings import Settings

__all__ = ["Audit", "Finding", "Section", "Settings", "audit", "audit_page"]
