"""Status: what a party has done since it started, for its live view."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from time import monotonic

from modelkeep.govern.passes import Pass


@dataclass
class Status:
    """Counts and the last news. The party's threads write it, a live view reads it."""

    party: str
    since: float = field(default_factory=monotonic)
    passes: Counter[str] = field(default_factory=Counter)
    consents: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    under_way: Pass | None = None
    last: Pass | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    news_count: int = 0
    _began: float = 0.0

    def note_consent(self, of: Pass) -> None:
        """Consent was given."""
        self.consents[of.purpose] += 1

    def note_refusal(self, of: Pass, reason: str) -> None:
        """Consent was not given."""
        self.refusals[of.purpose] += 1
        self.add_news(reason)

    def note_begin(self, of: Pass) -> None:
        """A pass is under way."""
        self.under_way, self._began = of, monotonic()

    def note_end(self, of: Pass, metrics: dict[str, float]) -> None:
        """This party has done its share of a pass."""
        self.passes[of.purpose] += 1
        self.seconds += monotonic() - self._began
        self.last, self.under_way = of, None
        if of.purpose == "train":
            self.metrics = metrics

    @property
    def news(self) -> str:
        """What happened last; `recent` has what was before it, and `news_count` counts all."""
        return self.recent[-1] if self.recent else ""

    def add_news(self, text: str) -> None:
        """Something happened."""
        self.recent.append(text)
        self.news_count += 1
