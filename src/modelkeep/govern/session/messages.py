"""What the messages of a session say, read strictly: numbers, measured values, consents, and errors."""

from __future__ import annotations

from typing import Any

from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, PartyBusy, PartyUnavailable, WireError
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Pass, read, read_consent
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message

_LONGEST_WAIT = 3600.0  # seconds; a party cannot make another one wait for ever
_ERRORS: dict[str, type[GovernError]] = {
    "pending": ConsentPending,
    "refused": ConsentRefused,
    "busy": PartyBusy,
    "unavailable": PartyUnavailable,
    "broken": GovernError,
}
_MEASURED: dict[str, set[str]] = {"train": {"loss"}, "evaluate": {"loss", "correct"}}


def read_number(message: Message, name: str) -> int:
    """A number that a message must have."""
    number = message.header.get(name)
    if type(number) is not int or not 0 <= number < 2**63:
        raise WireError(f"The message '{message.kind}' must say its '{name}', a number. It says {number!r:.40}.")
    return number


def read_consents(message: Message) -> list[Consent]:
    """The consents with which a pass begins."""
    consents: Any = message.header.get("consents")
    if not isinstance(consents, list):
        raise WireError("A pass was begun without the parties' consents.")
    return [read_consent(values) for values in consents]


def read_receipt(message: Message, peer: str) -> Receipt:
    """The statement of the party that sent the message."""
    receipt = read(Receipt, message.header.get("receipt"))
    if receipt.party != peer:
        raise WireError(f"'{peer}' sends a statement of '{receipt.party}' as its own.")
    return receipt


def read_metrics(prepared: Receipt, of: Pass) -> dict[str, float]:
    """What the party with the labels states that it measured in a pass."""
    metrics: Any = prepared.event.values.get("metrics")
    wanted = _MEASURED.get(of.purpose, set())
    known = isinstance(metrics, dict) and wanted <= metrics.keys()
    if not known or not all(type(value) in (int, float) and abs(value) < float("inf") for value in metrics.values()):
        raise GovernError(f"'{of.sink}' does not tell the {' and '.join(sorted(wanted)) or 'end'} of {of} in numbers.")
    found = {name: float(value) for name, value in metrics.items()}
    if not 0 <= found.get("correct", 0) <= of.rows:
        raise GovernError(f"'{of.sink}' says that {found['correct']:g} of the {of.rows} answers of {of} are right.")
    return found


def answer_question(connection: Connection, question: Message, header: dict[str, Any]) -> None:
    """Answer a message that asks for it."""
    connection.send(Message("answer", {**header, "question": question.header.get("question")}))


def refuse_question(connection: Connection, question: Message, error: GovernError) -> None:
    """Refuse a message that asks for an answer, with the reason."""
    connection.send(Message("refusal", {**describe_error(error), "question": question.header.get("question")}))


def describe_error(error: GovernError) -> dict[str, Any]:
    """An error as values for a message's header."""
    kind = next(name for name, type_ in _ERRORS.items() if isinstance(error, type_))
    header: dict[str, Any] = {"kind": kind, "reason": str(error)}
    if isinstance(error, ConsentPending):
        header["seconds"] = error.seconds
    return header


def read_refusal(message: Message) -> GovernError:
    """The error that another party describes."""
    reason, kind = str(message.header.get("reason", "no reason given")), message.header.get("kind")
    if kind == "pending":
        seconds: Any = message.header.get("seconds")
        usable = isinstance(seconds, int | float) and 0 <= seconds <= _LONGEST_WAIT
        return ConsentPending(reason, float(seconds) if usable else 1.0)
    return _ERRORS.get(str(kind), GovernError)(reason)
