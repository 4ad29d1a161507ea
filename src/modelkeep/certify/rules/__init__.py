"""Rules: how a call in the owner's network becomes an operation. What is not in `RULES` is refused by name."""

from modelkeep.certify.rules import elementwise, export, layers
from modelkeep.certify.rules.call import RULES, Call, NoRule, Value, Written

__all__ = ["RULES", "Call", "NoRule", "Value", "Written", "elementwise", "export", "layers"]
