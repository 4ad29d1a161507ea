"""The ledgers: what each party logs of every pass, and the audit that holds them against each other."""

from modelkeep.govern.ledger.entry import Crossing, Entry
from modelkeep.govern.ledger.events import Event
from modelkeep.govern.ledger.ledger import Ledger

__all__ = ["Crossing", "Entry", "Event", "Ledger"]
