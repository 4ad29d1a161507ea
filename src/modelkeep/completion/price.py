"""Price: what an hour of a machine costs, and so what a completion costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite, log10

from modelkeep.core.errors import bad_parameter


@dataclass(frozen=True)
class Price:
    """What an hour of the machine costs on which the seconds per step were measured.

    >>> print(Price(2.5, "€").of(7200), Price(2.5, "€").of(3), sep=", ")
    € 5.00, € 0.0021
    """

    per_hour: float
    currency: str = "€"

    def __post_init__(self) -> None:
        if not (self.per_hour >= 0 and isfinite(self.per_hour)):
            raise bad_parameter("Price", "per_hour", "a number of at least 0", self.per_hour)

    def of(self, seconds: float) -> str:
        """The cost of these seconds: with two decimals, or two digits where it is below 1."""
        amount = seconds / 3600 * self.per_hour
        decimals = 2 if amount >= 1 or amount == 0 else 1 - floor(log10(amount))
        return f"{self.currency}\N{NO-BREAK SPACE}{amount:,.{decimals}f}"
