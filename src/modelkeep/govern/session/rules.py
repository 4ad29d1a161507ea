"""The rules that every pass of an agreement must keep, checked before a party asks its own policies."""

from __future__ import annotations

from math import ceil

from modelkeep.core.errors import ConsentRefused, GovernError, WireError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.terms import SHA256
from modelkeep.govern.consent.policy import PERSONAL
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.passes import Pass

_MOST_ROWS = 2**20  # of one pass, so that an invented number takes little memory
_LAST_ROW = 2**53  # of any data set


def require_agreed(of: Pass, agreement: Agreement) -> None:
    """Refuse a pass that the agreement does not have: the details of a training pass all follow from its step.

    The asker brings the inputs, so it cannot make another party's data move.
    """
    if of.agreement != agreement.fingerprint:
        raise ConsentRefused(f"{of} is asked for under another agreement ({of.agreement[:12]}…).")
    names = [party.name for party in agreement.parties]
    if of.asker not in names or of.source != of.asker or of.sink not in names:
        raise _refusal(of, "the asker brings the inputs, and a party takes the outputs")
    if of.purpose in PERSONAL:
        _require_personal(of, agreement)
        return
    if not SHA256.fullmatch(of.data) or not SHA256.fullmatch(of.labels or of.data):
        raise _refusal(of, "data and labels are named by their fingerprints, a SHA-256 each")
    if of.purpose == "train":
        _require_step(of, agreement)
    elif not (1 <= of.rows <= _MOST_ROWS and 0 <= of.first <= _LAST_ROW and of.parts == 1):
        raise _refusal(of, f"it may have 1 to {_MOST_ROWS:,} rows, from row 0 on or a later one, in one part")
    elif of.purpose == "evaluate" and of.rows < agreement.limits.least_rows:
        raise _refusal(
            of, f"at least {agreement.limits.least_rows} rows are judged together: one alone shows its label"
        )
    elif of.purpose == "infer" and (of.sink != of.asker or of.labels):
        raise _refusal(of, "the outputs of an inference go to the asker, and it has no labels")


def _require_personal(of: Pass, agreement: Agreement) -> None:
    """A release and a check have no inputs; each check has a name of its own, because each draws anew."""
    if (of.labels, of.rows, of.first, of.parts) != ("", 0, 0, 1):
        raise _refusal(of, "it has no inputs and no labels")
    if of.purpose == "release" and of.data:
        raise _refusal(of, "it has no inputs and no labels")
    if of.purpose == "check":
        if not agreement.limits.checked_passes:
            raise _refusal(of, "no passes are kept for checks: draft an agreement with --checked-passes")
        if not SHA256.fullmatch(of.data) or of.sink == of.asker:
            raise _refusal(of, "a party checks another one, and each check has a random name")


def require_turn(of: Pass, agreement: Agreement, ledger: Ledger, step: int | None) -> None:
    """Refuse a pass that was before, comes too soon, or is for other weights than those after update `step`.

    A pass that runs again after a fault is in the ledger.
    """
    if of.agreement != agreement.fingerprint:
        raise GovernError(f"{of} is of another agreement ({of.agreement[:12]}…).")
    recorded = 0 <= of.number < ledger.committed and ledger.entry(of.number).of == of
    if not recorded and of.number != ledger.committed:
        raise WireError(f"{of} is out of turn: the next pass at '{ledger.party}' is {ledger.committed}.")
    updates = ledger.passes("train") - sum(entry.of.purpose == "train" for entry in ledger.entries(of.number))
    if of.step > updates or (of.purpose == "train" and of.step != updates):
        # Otherwise an update would be in the weights and not in the ledger, or the same step be taken twice.
        raise WireError(f"{of} is for weights after {of.step} updates; {updates} are in the ledger before it.")
    if of.step != step:
        raise WireError(f"{of} is for weights after {of.step} updates; '{ledger.party}' is at {step}.")


def _require_step(of: Pass, agreement: Agreement) -> None:
    recipe, n = agreement.recipe, agreement.data.rows
    per_epoch = ceil(n / recipe.batch_size)
    total = recipe.total(per_epoch)
    if not 0 <= of.step < total:
        raise _refusal(of, f"{total} updates were agreed on, which is all of them")
    agreed = {
        "source": agreement.data.holder,
        "sink": agreement.labels.holder,
        "data": agreement.data.fingerprint,
        "labels": agreement.labels.fingerprint,
        "rows": min(recipe.batch_size, n - of.step % per_epoch * recipe.batch_size),
        "first": 0,
        "parts": recipe.micro_batches,
    }
    for name, value in agreed.items():
        if getattr(of, name) != value:
            raise _refusal(of, f"its {name} must be {value!r}. Got {getattr(of, name)!r}")


def _refusal(of: Pass, rule: str) -> ConsentRefused:
    return ConsentRefused(f"{of} of step {of.step} is not what was agreed on: {rule}.")
