"""`modelkeep govern approve`, `withdraw`, `restore` and `pending`: a person's say, while the party runs."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelkeep.govern.consent.policy import Policy
    from modelkeep.govern.consent.state import ConsentState
    from modelkeep.govern.folder import Folder


class For(StrEnum):
    """What a pass may be for."""

    TRAIN = "train"
    EVALUATE = "evaluate"
    INFER = "infer"
    RELEASE = "release"
    CHECK = "check"


FolderPath = Annotated[Path, typer.Argument(help="The party's folder.")]
Purposes = Annotated[For | None, typer.Option("--purpose", help="Only this one; all of them by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


def approve(
    folder: FolderPath = Path(),
    *,
    purpose: Annotated[For, typer.Option(help="What for.")],
    passes: Annotated[int, typer.Option(min=1, help="How many passes.")] = 1,
    until: Annotated[
        str | None, typer.Option(help="Until when, as 2030-12-31T18:00 in UTC; a day from now by default.")
    ] = None,
    asker: Annotated[str | None, typer.Option(help="Only if this party asks.")] = None,
    person: Annotated[str | None, typer.Option("--as", help="For a board: who approves; needs --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="For a board: that person's key file (PEM).")] = None,
    number: Annotated[
        int | None, typer.Option("--pass", min=0, help="For a board: only this pass of those that `pending` lists.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Consent, as a person, to some passes of those that a policy puts before one.

    Where the policy names a board, say who you are with --as and sign with your own --key.
    """
    from modelkeep.core.errors import InputError
    from modelkeep.govern.consent.windows import at

    now = time.time()
    end = now + 24 * 3600 if until is None else _moment(until)
    if end <= now:
        raise InputError(f"{at(end)} is over: it is {at(now)}. Name a later time with --until.")
    if (person is None) != (key is None) or (number is not None and person is None):
        raise InputError("A member of a board says --as NAME and --key FILE together; --pass goes with them.")
    with _opened(folder) as state:
        if person is None or key is None:
            _require_no_board(folder)
            state.approve(passes, purpose.value, end, asker, by=_person())
            left = state.count_approvals(purpose.value, now)
            told = f"{left} approved passes to {purpose.value} are left"
        else:
            left, told = _approve_for_board(folder, state, _Signing(person, key, number), purpose, passes, end, asker)
        reason = state.withdrawal(purpose.value)
    if as_json:
        typer.echo(json.dumps({"purpose": purpose.value, "approved": left, "until": end, "withdrawn": reason}))
        return
    typer.echo(f"approved until {at(end)}; {told}")
    if reason is not None:
        typer.secho(f"but consent to {purpose.value} is withdrawn ({reason}), which goes before", fg="yellow", err=True)


@dataclass(frozen=True)
class _Signing:
    """Who of a board approves, with which key, and which pass only."""

    person: str
    key: Path
    number: int | None


def _approve_for_board(
    folder: Path, state: ConsentState, who: _Signing, purpose: For, passes: int, until: float, asker: str | None
) -> tuple[int, str]:
    """Keep a signed approval. How many passes that person has approved, and a sentence about the whole board."""
    from modelkeep.core.errors import GovernError, InputError
    from modelkeep.core.signing import Signer
    from modelkeep.govern.consent.board import Approval
    from modelkeep.govern.folder import Folder

    party, name = Folder(folder), Folder(folder).public().name
    boards = [policy.board for policy in _policies(party) if policy.board is not None]
    if not boards:
        raise GovernError(f"No policy of '{name}' names a board. Approve without --as and --key.")
    if not who.key.exists():
        raise InputError(f"There is no key '{who.key}'. `modelkeep govern init {who.person}` makes one.")
    waiting = {one.of.number: one.of for one in state.pending()}
    if who.number is not None and who.number not in waiting:
        raise InputError(f"Pass {who.number} does not wait for a person. `modelkeep govern pending` lists those.")
    agreement = party.signed_agreement().fingerprint
    approval = Approval(
        agreement=agreement,
        party=name,
        approver=who.person,
        purpose=purpose.value,
        passes=passes,
        given=int(time.time()),
        until=int(until),
        asker=asker,
        only=None if who.number is None else waiting[who.number].digest,
    ).sign(Signer.at(who.key))
    for board in boards:
        approval.check(board, agreement, name, time.time())
    state.board.add(approval, boards[0], agreement, name)
    left = state.board.left(boards[0], purpose.value, time.time())
    people = sorted(person for person, count in left.items() if count)
    told = f"{len(people)} of the {boards[0].needed} people needed have approved: {', '.join(people)}"
    return left[who.person], told


def _policies(party: Folder) -> list[Policy]:
    """The agreed policy, and the party's own."""
    from modelkeep.govern.consent.policy import Policy
    from modelkeep.govern.documents import read_document

    found = [party.signed_agreement().policy(party.public().name)] if party.agreement.exists() else []
    return [*found, read_document(Policy, party.policy, "a policy")] if party.policy.exists() else found


def _require_no_board(folder: Path) -> None:
    """Refuse an approval without a signature where only a board can approve."""
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.folder import Folder

    policies = _policies(Folder(folder))
    boards = [policy.board for policy in policies if policy.board is not None]
    if boards and not any(policy.human for policy in policies):
        people = ", ".join(sorted(boards[0].approvers))
        raise GovernError(f"Here a board approves ({boards[0].needed} of {people}): say --as NAME and --key FILE.")


def withdraw(
    folder: FolderPath = Path(),
    *,
    reason: Annotated[str, typer.Option(help="Why; the other parties are told.")] = "",
    purpose: Purposes = None,
    as_json: Json = False,
) -> None:
    """Consent to nothing any more, from the next pass on, until `restore`. It outlasts a restart."""
    with _opened(folder) as state:
        state.withdraw(reason, None if purpose is None else purpose.value)
        _show(state, as_json)


def restore(folder: FolderPath = Path(), *, purpose: Purposes = None, as_json: Json = False) -> None:
    """Take a withdrawal back. The policies count as before."""
    with _opened(folder) as state:
        state.restore(None if purpose is None else purpose.value)
        _show(state, as_json)


def pending(folder: FolderPath = Path(), *, as_json: Json = False) -> None:
    """List the passes that wait for a person. A party may have given up since it asked: see when it last did."""
    with _opened(folder) as state:
        waiting = state.pending()
    if as_json:
        typer.echo(json.dumps([{**asdict(one.of), "asked": one.asked} for one in waiting]))
        return
    if not waiting:
        typer.echo("no pass waits for a person")
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE)
    for heading in ("pass", "rows"):
        table.add_column(heading, justify="right")
    for heading in ("purpose", "asked by", "data", "last asked"):
        table.add_column(heading)
    for one in waiting:
        ago = f"{max(0.0, time.time() - one.asked):,.0f} s ago"
        told = (one.of.purpose, escape(one.of.asker), escape(one.of.data[:16]))
        table.add_row(str(one.of.number), f"{one.of.rows:,}", *told, ago)
    Console().print(table)


@contextmanager
def _opened(folder: Path) -> Iterator[ConsentState]:
    """The party's consents; in a folder that is no party's, nothing is made."""
    from modelkeep.govern.consent.state import ConsentState
    from modelkeep.govern.folder import Folder

    party = Folder(folder)
    party.public()
    state = ConsentState(party.consent)
    try:
        yield state
    finally:
        state.close()


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""


def _moment(text: str) -> float:
    from modelkeep.core.errors import bad_parameter

    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise bad_parameter("approve", "until", "a time like 2030-12-31T18:00", text) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _show(state: ConsentState, as_json: bool) -> None:
    """How things stand after a change."""
    from modelkeep.govern.consent.policy import PURPOSES

    withdrawn = {purpose: state.withdrawal(purpose) for purpose in PURPOSES}
    if as_json:
        typer.echo(json.dumps({"withdrawn": {key: why for key, why in withdrawn.items() if why is not None}}))
        return
    for purpose, reason in withdrawn.items():
        if reason is None:
            typer.echo(f"{purpose}: by the policies")
        else:
            typer.echo(f"{purpose}: withdrawn{f' ({reason})' if reason else ''}")
