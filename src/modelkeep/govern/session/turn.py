"""Turn: which party leads next, where several want to at the same time.

A model has one session at a time. A party that leads, or opens a session, turns others away at once (`PartyBusy`), and
they come again. If two open sessions at the same time, each turns the other away; then the one that the agreement names
first comes again soon, and the other one waits longer and takes part meanwhile. A party that has led and has turned
others away lets them go first before it leads again. So no two wait for each other, and all get their turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelkeep.core.errors import PartyBusy

YIELDING = 2.0  # seconds; longer than any wait between two tries to open a session (`leader`)


class Turn:
    """Whether it is the turn of the party `name`. The threads that read its connections ask this.

    Args:
        name: The party.
        order: All parties, in the order of the agreement.
    """

    def __init__(self, name: str, order: Sequence[str]) -> None:
        self._name = name
        self._first = set(order[: order.index(name)])
        self._taken = self._opened = False
        self.yields = False
        self.turned_away = False

    def take(self) -> None:
        """Begin to open a session. From now on others are turned away."""
        self._taken, self._opened = True, False
        self.yields = self.turned_away = False

    def open(self) -> None:
        """The session is open: nobody takes it away any more."""
        self._opened = True

    def release(self) -> None:
        """Let others lead."""
        self._taken = self._opened = False

    def refuse(self, peer: str) -> PartyBusy | None:
        """Turn a party away that wants to lead; None if it may."""
        if not self._taken:
            return None
        self.turned_away = True
        if not self._opened and peer in self._first:
            self.yields = True
        return PartyBusy(f"'{self._name}' leads a session itself.")
