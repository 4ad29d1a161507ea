"""The ledgers: what each party logs of every pass, and the audit that holds them against each other."""

from modelkeep.govern.ledger.audit import Audit, audit
from modelkeep.govern.ledger.entry import Crossing, Entry, Event
from modelkeep.govern.ledger.findings import Finding
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.reader import LedgerReader, read_ledger

__all__ = ["Audit", "Crossing", "Entry", "Event", "Finding", "Ledger", "LedgerReader", "audit", "read_ledger"]
