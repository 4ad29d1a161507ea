"""History: a ledger as a bank statement: who asked for what, what became of it, and what was said besides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any

from modelkeep.govern.ledger.entry import Event

WIDTH = 80  # columns
_INDENT = 18  # columns of the date, below which the reasons stand
_OUTCOMES = {"committed": "completed", "given up": "given up", "lost": "lost"}
_UNSEEN = ("standing", "prepared", "serving")  # they come with every session, pass and start
_ASKER = re.compile(r"asked by ([a-z0-9-]+)\)")


@dataclass(frozen=True)
class HistoryLine:
    """What happened to passes `first` to `last` at one party, or what it noted besides (then there are no passes).

    `time` is when the last of it happened (seconds since 1970). `rows` is None where an old ledger does not say it.
    A pass that begins has the consent of all; one that is refused has not.
    """

    party: str
    time: float
    what: str
    passes: int = 0
    first: int | None = None
    last: int | None = None
    asker: str = ""
    purpose: str = ""
    rows: int | None = None
    text: str = ""

    def extends(self, before: HistoryLine) -> bool:
        """Whether both are one line: passes of the same kind in a row, or the same words again."""
        same = (self.party, self.what, self.asker, self.purpose)
        if same != (before.party, before.what, before.asker, before.purpose):
            return False
        return self.text == before.text and (self.what == "completed" or self.first == before.first)

    def joined(self, before: HistoryLine) -> HistoryLine:
        """Both as one line."""
        rows = None if self.rows is None or before.rows is None else self.rows + before.rows
        return replace(self, first=before.first, passes=before.passes + self.passes, rows=rows)


class History:
    """The lines of one party's account, in the order in which it noted them."""

    def __init__(self, party: str) -> None:
        self._party = party
        self._lines: list[HistoryLine] = []
        self._begun: dict[str, HistoryLine] = {}
        self._approved: dict[object, str] = {}  # by whom, of a board

    def take(self, event: Event) -> None:
        """Read the next event."""
        name = str(event.values.get("attempt", ""))
        if event.kind == "intent":
            self._begun[name] = _describe_pass(self._party, event, "under way")
        elif event.kind in _OUTCOMES:
            begun = self._begun.pop(name, None) or _describe_pass(self._party, event, "")
            approved = self._approved.pop(event.values.get("pass"), "")
            told = approved if event.kind == "committed" else event.text
            self._add(replace(begun, time=event.time, what=_OUTCOMES[event.kind], text=told))
        elif event.kind == "board":
            people = [str(each.get("approver")) for each in event.values.get("approvals", [])]
            self._approved[event.values.get("pass")] = f"approved by {', '.join(people)}"
        elif event.kind == "refused" and "purpose" in event.values:
            self._add(replace(_describe_pass(self._party, event, "refused"), text=event.text))
        elif event.kind not in _UNSEEN:
            moment = event.values.get("time", event.time)  # a person's change is noted when the party next looks
            self._add(HistoryLine(self._party, float(moment), event.kind, text=event.text))

    def lines(self) -> list[HistoryLine]:
        """All lines; what has begun and not ended comes last."""
        return [*self._lines, *self._begun.values()]

    def _add(self, line: HistoryLine) -> None:
        if self._lines and line.extends(self._lines[-1]):
            self._lines[-1] = line.joined(self._lines[-1])
        else:
            self._lines.append(line)


def _describe_pass(party: str, event: Event, what: str) -> HistoryLine:
    values = event.values
    number, rows = values.get("number"), values.get("rows")
    found = _ASKER.search(event.text)
    return HistoryLine(
        party=party,
        time=event.time,
        what=what,
        passes=1,
        first=number if type(number) is int else None,
        last=number if type(number) is int else None,
        asker=str(values.get("asker") or (found[1] if found else "")),
        purpose=str(values.get("purpose", "")),
        rows=rows if type(rows) is int else None,
    )


def merge(histories: Iterable[Sequence[HistoryLine]]) -> list[HistoryLine]:
    """The lines of several parties by their time: what became of passes once, and all that each noted besides.

    What was completed is told by the party that has completed most, and of these by one whose board approved it: all
    tell the same, but each puts other passes on one line.
    """
    told = list(histories)
    counts = [_weigh(lines) for lines in told]
    first = counts.index(max(counts)) if counts else 0
    found: list[HistoryLine] = []
    known: set[tuple[Any, ...]] = set()
    for index, lines in enumerate(told):
        for line in lines:
            place = (line.what, line.first, line.purpose)
            if line.what == "completed":
                shown = index == first
            else:
                shown = not line.passes or line.what == "refused" or place not in known
            if shown:
                found.append(line)
        known |= {(line.what, line.first, line.purpose) for line in lines}
    return sorted(found, key=lambda line: line.time)


def _weigh(lines: Sequence[HistoryLine]) -> tuple[int, bool]:
    completed = [line for line in lines if line.what == "completed"]
    return sum(line.passes for line in completed), any(line.text for line in completed)


def write_statement(lines: Sequence[HistoryLine], parties: Sequence[str], *, of: str = "") -> str:
    """The lines for a person, in 80 columns. `of` is the party whose statement it is; without one all are named."""
    shown = [f"{'date (UTC)':16}  {'pass':9} {'asked by':10} {'for':8} {'rows':>7}  what became of it"]
    for line in lines:
        moment = datetime.fromtimestamp(line.time, UTC).strftime("%Y-%m-%d %H:%M")
        rows = "" if line.rows is None else f"{line.rows:,}"
        asked = f"{_numbers(line):9} {line.asker[:10]:10} {line.purpose:8} {rows:>7}"
        shown.append(f"{moment}  {asked}  {_outcome(line, of)}".rstrip())
        shown += [" " * _INDENT + each for each in wrap(_printable(line.text), WIDTH - _INDENT)]
    if not lines:
        shown.append("nothing yet")
    elif any(line.passes and line.what != "refused" for line in lines):
        shown.append(f"Each pass that began had the signed consent of: {', '.join(parties)}.")
    return "\n".join(shown)


def _outcome(line: HistoryLine, of: str) -> str:
    if line.what == "completed":
        return f"completed, {line.passes:,}" if line.passes > 1 else "completed"
    times = f" {line.passes:,} times" if line.passes > 1 else ""
    return f"{line.what}{times}{'' if of else f' at {line.party}'}"


def _numbers(line: HistoryLine) -> str:
    if line.first is None:
        return ""
    return f"{line.first}" if line.first == line.last else f"{line.first}–{line.last}"


def _printable(text: str) -> str:
    """Without what moves a terminal's cursor: other parties wrote some of it."""
    return "".join(each for each in text if each.isprintable())
