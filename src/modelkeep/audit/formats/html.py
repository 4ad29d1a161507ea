"""HTML: the page of the audit, as one file that opens offline."""

from __future__ import annotations

from modelkeep.audit.audit import Audit
from modelkeep.audit.formats.format import Format
from modelkeep.audit.page import audit_page
from modelkeep.core.method import declare


def write_html(audit: Audit) -> str:
    """The page; of an audit that was read from a file it has no pictures, which are not stored."""
    return audit_page(audit).render()


HTML = declare("report-format", "html", does="One page for people, which opens offline")(
    Format("report.html", write_html)
)
