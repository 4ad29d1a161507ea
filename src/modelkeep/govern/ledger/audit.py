"""audit: hold the parties' ledgers against each other and name every entry that was changed, left out or made up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from modelkeep.core import progress
from modelkeep.core.errors import GovernError, join_names
from modelkeep.core.results import Result, measured
from modelkeep.govern.consent.policy import USES
from modelkeep.govern.ledger.allowances import check_board, check_rates
from modelkeep.govern.ledger.budgets import Budget, count_budgets
from modelkeep.govern.ledger.checks import CrossCheck, chain
from modelkeep.govern.ledger.entry import Entry, Event
from modelkeep.govern.ledger.findings import Finding, Findings
from modelkeep.govern.ledger.history import WIDTH, History, HistoryLine, merge, write_statement
from modelkeep.govern.ledger.key_audit import LoggedKeys, read_keys
from modelkeep.govern.ledger.reader import LedgerReader, read_ledger
from modelkeep.govern.ledger.statements import Account, AttemptEnd, check_statements
from modelkeep.govern.passes import Purpose

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from modelkeep.govern.agreement.agreement import Agreement

_MOST_SHOWN = 20  # findings
_MOST_LINES = 40  # of the history


@dataclass(frozen=True)
class Audited:
    """One ledger that was audited: how much is in it, and the hash of its last entry."""

    party: str
    entries: int
    committed: int
    events: int
    last: str


@dataclass(frozen=True)
class Stretch:
    """Passes `first` to `last`, all of one purpose and asked for by one party."""

    purpose: Purpose
    asker: str
    first: int
    last: int


@dataclass(frozen=True)
class KeyChanged:
    """Another key of a party, or none, from the pass with the number `passes` on, and who consented to that."""

    party: str
    kind: str
    passes: int
    consents: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(Result, kind="ledger-audit"):
    """What an audit of the parties' ledgers found. `missing`: the parties whose ledgers were not there.

    Without findings, the ledgers say what happened, as far as one party alone could have changed it. Parties who lie
    together are found out by any other party about all but the last two passes; in these, two neighbours can agree on
    a digest that never crossed. All parties together can write what they like. Events after the last that another
    party keeps as a receipt are a party's own account, and its last entry binds it only once another ledger says that
    it is committed. `given_up` are the attempts at passes that did not come to their end, and `budgets`
    what each party's agreed policy still allows.
    """

    agreement: str
    ledgers: tuple[Audited, ...]
    missing: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    findings: tuple[Finding, ...]
    given_up: tuple[AttemptEnd, ...] = ()
    history: tuple[HistoryLine, ...] = ()
    budgets: tuple[tuple[str, Budget], ...] = ()
    key_changes: tuple[KeyChanged, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def exit_status(self) -> int:
        """For the command line: 0 where nothing was found, 1 otherwise."""
        return 0 if self.sound else 1

    def passes(self) -> dict[tuple[Purpose, str], int]:
        """How many passes there were of each purpose, asked for by each party."""
        counts: Counter[tuple[Purpose, str]] = Counter()
        for stretch in self.stretches:
            counts[stretch.purpose, stretch.asker] += stretch.last - stretch.first + 1
        return dict(counts)

    @property
    def verdict(self) -> str:
        """In one line: whether something is wrong, and who did it."""
        under = f"under the agreement {self.agreement[:16]}…"
        if self.sound:
            return f"nothing wrong {under}"
        people = dict.fromkeys(each.party + f" or {each.peer}" * bool(each.peer) for each in self.findings)
        count = len(self.findings)
        return f"{count} finding{'s' * (count > 1)} {under}, against {join_names(list(people))}"

    def text(self) -> str:
        """For a person: the verdict, what was found, and what happened, in 80 columns."""
        parts = [self.verdict[0].upper() + self.verdict[1:] + "."]
        for label, value in self.rows()[1:]:
            parts += wrap(f"{label}: {value}", WIDTH, initial_indent="  ", subsequent_indent="    ")
        shown = self.history[-_MOST_LINES:]
        if len(shown) < len(self.history):
            parts += ["", f"({len(self.history) - len(shown):,} earlier lines: --json has all)"]
        parties = [*(each.party for each in self.ledgers), *self.missing]
        return "\n".join([*parts, "", write_statement(shown, parties)])

    def rows(self) -> list[tuple[str, str]]:
        """The verdict, the findings, the ledgers and the passes."""
        rows = [("verdict", self.verdict)]
        rows += [(f"{each.kind}: {each.where}", each.text) for each in self.findings[:_MOST_SHOWN]]
        if len(self.findings) > _MOST_SHOWN:
            rows.append(("…", f"{len(self.findings) - _MOST_SHOWN} more; the JSON has all"))
        if self.missing:
            rows.append(
                ("not audited", f"{join_names(self.missing)}: no ledger, so nothing that only it could contradict")
            )
        for ledger in self.ledgers:
            told = f"{ledger.entries} entries, {ledger.committed} committed, {ledger.events} events"
            rows.append((f"ledger of {ledger.party}", f"{told}; ends with {ledger.last[:16] or 'nothing'}"))
        for (purpose, asker), count in self.passes().items():
            rows.append((f"{purpose}, asked by {asker}", f"{count} passes"))
        for change in self.key_changes:
            told = f"{change.kind}, from pass {change.passes} on; signed by {', '.join(change.consents)}"
            rows.append((f"key of {change.party}", f"{told}{f' ({change.reason})' if change.reason else ''}"))
        counts = Counter((each.party, each.purpose, each.ended) for each in self.given_up)
        for (party, wanted, ended), count in counts.items():
            rows.append((f"{wanted}, {ended} at {party}", f"{count} attempts"))
        rows += [(f"{each.purpose}, by the policy of {party}", str(each)) for party, each in self.budgets]
        return rows

    def draw(self) -> Figure:
        """Which passes ran when, by their numbers, a row per purpose and asker; below, what was found where."""
        from modelkeep.core import plots

        kinds, parties = list(self.passes()), [ledger.party for ledger in self.ledgers]
        found = [f for f in self.findings if f.number is not None and not f.events]
        labels = [f"{purpose} by {asker}" for purpose, asker in kinds]
        labels += [f"found with {party}" for party in parties] if found else []
        figure = plots.figure(height=1.2 + 0.35 * max(1, len(labels)))
        title = "No finding" if self.sound else f"{len(self.findings)} findings"
        ax = plots.axes(figure, title, x_label="number of the pass", grid="x")
        for row, kind in enumerate(kinds):
            mine = [s for s in self.stretches if (s.purpose, s.asker) == kind]
            ax.broken_barh([(s.first, s.last - s.first + 1) for s in mine], (row - 0.3, 0.6), color=plots.PALETTE[0])
        for finding in found:
            if finding.party in parties and finding.number is not None:
                row = len(kinds) + parties.index(finding.party)
                until = finding.number if finding.until is None else finding.until
                ax.plot([finding.number, until + 1], [row, row], marker="x", color=plots.PALETTE[1])
        ax.set_yticks(range(len(labels)), labels)
        ax.invert_yaxis()
        return figure


def audit(agreement: Agreement, ledgers: Mapping[str, Path]) -> Audit:
    """Check the ledgers of the parties to an agreement, each by itself and against the others.

    `ledgers` names each party's file: its SQLite file, also while the party writes to it, or an exported copy. Ledgers
    may be left out; then what they alone could contradict stays unchecked. No party needs to be reached.
    """
    for party in ledgers:
        agreement.member(party)
    findings = Findings()
    with measured(seed=0) as provenance:
        try:
            agreement.check_signed()
        except GovernError as error:
            findings.add("agreement", "all parties", None, str(error))
        # All are opened, and say what is committed, before any is read: parties may be writing, and what is committed
        # here is then to be found everywhere.
        readings = _readings(ledgers, findings)
        keys = read_keys(agreement, readings, findings)
        _check_owners(readings, keys, findings)
        audited, stretches = _compare(agreement.fingerprint, readings, keys, findings)
        accounts = {party: Account(party) for party in readings}
        histories = {party: History(party) for party in readings}
        for party, reading in readings.items():
            for event in chain(Event, reading, party, keys.at_event, findings):
                accounts[party].take(event)
                histories[party].take(event)
            audited[party] = replace(audited[party], events=len(accounts[party].hashes))
        policies = {party: agreement.policy(party) for party in keys.names}
        check_statements(accounts, readings, keys, policies, findings)
        for party, account in accounts.items():
            intents = list(account.intents.values())
            check_rates(party, intents, policies[party], findings)
            check_board(party, intents, account.boards, policies[party], agreement.fingerprint, findings)
        return Audit(
            agreement=agreement.fingerprint,
            ledgers=tuple(audited.values()),
            missing=tuple(party for party in keys.names if party not in readings),
            stretches=tuple(stretches),
            findings=findings.all(),
            given_up=tuple(end for account in accounts.values() for end in account.given_up()),
            budgets=tuple(
                (party, budget)
                for party, account in accounts.items()
                for budget in count_budgets([policies[party]], account, None, time.time())
                if budget.begun or (budget.purpose in USES and (budget.most is not None or budget.now))
            ),
            history=tuple(merge(history.lines() for history in histories.values())),
            key_changes=tuple(
                KeyChanged(each.party, each.kind, each.passes, tuple(sorted(each.consents)), each.reason)
                for each in keys.history.changes
            ),
            provenance=provenance(),
        )


def _readings(ledgers: Mapping[str, Path], findings: Findings) -> dict[str, LedgerReader]:
    readings = {}
    for party, path in sorted(ledgers.items()):
        try:
            reading = read_ledger(path)
        except GovernError as error:
            findings.add("unreadable", party, None, str(error))
            continue
        readings[party] = reading
    return readings


def _check_owners(readings: Mapping[str, LedgerReader], keys: LoggedKeys, findings: Findings) -> None:
    for party, reading in readings.items():
        if reading.party != party or reading.public_key not in keys.ever(party):
            told = f"it is the ledger of '{reading.party}' with the key {reading.public_key[:16]}…."
            findings.add("identity", party, None, f"'{reading.path}' says that {told}")


def _compare(
    agreement: str, readings: Mapping[str, LedgerReader], keys: LoggedKeys, findings: Findings
) -> tuple[dict[str, Audited], list[Stretch]]:
    """Go through all ledgers at once, pass by pass, so that memory does not grow with their length."""
    audited = {party: Audited(party, 0, reading.committed, 0, "") for party, reading in readings.items()}
    chains = {party: chain(Entry, reading, party, keys.at_pass, findings) for party, reading in readings.items()}
    following = {party: next(links, None) for party, links in chains.items()}
    check, stretches = CrossCheck(agreement, keys, findings), list[Stretch]()
    final = max((reading.committed for reading in readings.values()), default=0)
    ends = dict.fromkeys(readings, 0)
    with progress.task("Audit", total=final or None) as task:
        while any(entry is not None for entry in following.values()):
            number = min(entry.number for entry in following.values() if entry is not None)
            here = {party: entry for party, entry in following.items() if entry is not None and entry.number == number}
            check.check(number, here, final=number < final)
            for party, entry in here.items():
                audited[party] = replace(audited[party], entries=audited[party].entries + 1, last=entry.hash)
                following[party], ends[party] = next(chains[party], None), number + 1
            _extend(stretches, next(iter(here.values())))
            task.advance()
    _check_ends(ends, {party: reading.committed for party, reading in readings.items()}, findings)
    return audited, stretches


def _check_ends(ends: Mapping[str, int], committed: Mapping[str, int], findings: Findings) -> None:
    """Find ledgers that end too early: what any party has committed, all had logged before."""
    for party, end in ends.items():
        if committed[party] > end:
            text = f"The ledger of '{party}' ends here, but says itself that {committed[party]} entries are committed."
            findings.add("missing", party, end, text, until=committed[party] - 1)
        for other in ends:
            vouched = min(committed[other], ends[other])
            if vouched > end:
                text = (
                    f"The ledger of '{party}' ends here, but '{other}' has {vouched} committed entries. Is it a copy, "
                )
                findings.add("missing", party, end, text + "and an older one?", until=vouched - 1)


def _extend(stretches: list[Stretch], entry: Entry) -> None:
    of, last = entry.of, stretches[-1] if stretches else None
    if last and (last.purpose, last.asker, last.last) == (of.purpose, of.asker, of.number - 1):
        stretches[-1] = replace(last, last=of.number)
    else:
        stretches.append(Stretch(of.purpose, of.asker, of.number, of.number))
