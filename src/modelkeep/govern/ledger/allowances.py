"""What a party's agreed policy allowed, held against what its account says that it began: rates, and its board."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

from modelkeep.core.errors import GovernError
from modelkeep.govern.consent.board import Approval, Board
from modelkeep.govern.consent.policy import Policy
from modelkeep.govern.ledger.attempts import key_of_intent
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.findings import Findings
from modelkeep.govern.passes import read


def check_rates(party: str, intents: Iterable[Event], policy: Policy, findings: Findings) -> None:
    """No more passes may have been begun in a while than the party's agreed policy allows, by its own clock."""
    for purpose, rate in policy.rates.items():
        last: deque[float] = deque(maxlen=rate.passes)
        seen: set[str] = set()
        for intent in intents:
            key = key_of_intent(intent.values)
            if intent.values.get("purpose") != purpose or key in seen:
                continue
            if rate.wait(last, intent.time) > 0:
                text = f"More than {rate.passes} passes to {purpose} were begun in {rate.seconds:g} seconds."
                findings.add("consent", party, intent.number, text, events=True)
            last.append(intent.time)
            seen.add(key)


def check_board(
    party: str, intents: Iterable[Event], boards: Sequence[Event], policy: Policy, agreement: str, findings: Findings
) -> None:
    """Every pass must have the approvals that its party's board owed it, signed, and none spent more than it says."""
    board = policy.board
    if board is None:
        return
    mine = [event for event in boards if event.values.get("board") == board.name and "pass" in event.values]
    by_pass = {key_of_intent(event.values): event for event in mine}
    spent: Counter[str] = Counter()
    seen: set[str] = set()
    for intent in sorted(intents, key=lambda event: event.number):
        key = key_of_intent(intent.values)
        if key in seen:
            continue
        seen.add(key)
        event = by_pass.get(key)
        wrong = _find_wrong(event, intent, board, (agreement, party), spent)
        if wrong:
            findings.add("consent", party, intent.number, wrong, events=True)


def _find_wrong(event: Event | None, intent: Event, board: Board, under: tuple[str, str], spent: Counter[str]) -> str:
    """What is wrong with a board's approval of a pass; nothing: it is as it must be."""
    party = under[1]
    if event is None or event.number > intent.number:
        return f"This pass was begun without the approval of the board of '{party}'."
    people = set()
    told: Any = event.values.get("approvals")
    try:
        for approval in [read(Approval, values) for values in told]:
            approval.check(board, *under, event.time)
            asked = (intent.values.get("purpose"), intent.values.get("asker"), intent.values.get("pass"))
            limits = (approval.purpose, approval.asker or asked[1], approval.only or asked[2])
            spent[approval.nonce] += 1
            if limits != asked or spent[approval.nonce] > approval.passes:
                return f"The approval of '{approval.approver}' is for another pass, or was used too often."
            people.add(approval.approver)
    except (GovernError, TypeError) as error:
        return f"The approval of the board of '{party}' does not hold. {error}"
    if len(people) < board.needed:
        return f"{len(people)} of the board of '{party}' have approved this pass, and {board.needed} must."
    return ""
