"""The page of an audit of the parties' ledgers: whether anything was changed, left out or made up, and by whom."""

from __future__ import annotations

from modelkeep.govern.ledger.audit import Audit
from modelkeep.report.page import Card, Note, Page
from modelkeep.report.plain import plain_page


def ledger_audit_page(found: Audit) -> Page:
    """The page. Where a ledger was missing, no finding is not good news yet."""
    notes = tuple(Note("high", each.kind, each.where, each.text) for each in found.findings)
    level = "high" if notes else "unclear" if found.missing else "good"
    verdict = f"{found.verdict[0].upper()}{found.verdict[1:]}."
    if found.missing:
        verdict += f" Not audited: {', '.join(found.missing)}."
    passes = sum(found.passes().values())
    cards = (
        Card("findings", str(len(found.findings)), f"in {len(found.ledgers)} ledgers"),
        Card("passes", f"{passes:,}", f"{len(found.given_up):,} attempts were given up"),
    )
    return plain_page(
        found,
        title="The ledgers of the parties",
        verdict=verdict,
        level=level,
        cards=cards,
        notes=notes,
        shows="Which passes ran when, by their numbers, and where something was found.",
    )
