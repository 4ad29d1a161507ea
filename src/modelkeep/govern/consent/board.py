"""Board: the people within one party of whom some must approve, each with a signature of their own.

An `Approval` is a statement that an approver signs, with the same kind of key as a party. It is kept with the consents,
goes into the party's account with each pass that it is spent on, and can be checked by any party and by an audit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from secrets import token_hex
from typing import Any

from modelkeep.core.errors import GovernError, bad_parameter, join_names
from modelkeep.core.signing import Signer, canonical, is_signed
from modelkeep.govern.consent.windows import at
from modelkeep.govern.identity import require_name
from modelkeep.govern.passes import Pass, Purpose

_DAY = 24 * 3600.0
_CLOCKS = 60.0  # seconds that the clocks of two people may differ by


@dataclass(frozen=True)
class Board:
    """`needed` of the `approvers` must have approved a pass; an approval holds for at most `seconds`.

    `approvers` are the people's public keys (hexadecimal) by their names; `modelkeep govern init` makes such keys.
    """

    approvers: Mapping[str, str]
    needed: int
    seconds: float = 7 * _DAY

    def __post_init__(self) -> None:
        for name, key in self.approvers.items():
            require_name(name, "an approver")
            if len(key) != 64 or set(key) - set("0123456789abcdef"):
                raise bad_parameter("Board", "approvers", "names with public keys of 64 hexadecimal digits", key)
        if len(set(self.approvers.values())) < len(self.approvers):
            raise bad_parameter("Board", "approvers", "people with a key of their own each", dict(self.approvers))
        if not 1 <= self.needed <= len(self.approvers):
            raise bad_parameter(
                "Board", "needed", f"from 1 to the number of approvers, {len(self.approvers)}", self.needed
            )
        if not (math.isfinite(self.seconds) and self.seconds >= 1):
            raise bad_parameter("Board", "seconds", "a number of seconds from 1 on", self.seconds)

    @property
    def name(self) -> str:
        """What tells it from another board: a party may have one by the agreement and one of its own."""
        return f"board {sha256(canonical(asdict(self))).hexdigest()[:16]}"


@dataclass(frozen=True, kw_only=True)
class Approval:
    """One person's consent to `passes` passes for a purpose, from `given` until `until` (seconds since 1970).

    `asker` limits it to what one party asks for, `only` to the one pass with that digest. The `nonce` tells two
    approvals of the same words apart.
    """

    agreement: str
    party: str
    approver: str
    purpose: Purpose
    passes: int
    given: int
    until: int
    asker: str | None = None
    only: str | None = None
    nonce: str = ""
    signature: str = ""

    def sign(self, signer: Signer) -> Approval:
        """The approval with its approver's signature."""
        unsigned = replace(self, nonce=self.nonce or token_hex(16), signature="")
        return replace(unsigned, signature=signer.sign(unsigned._content()))

    def check(self, board: Board, agreement: str, party: str, now: float) -> None:
        """Refuse an approval that no pass could ever be made with: by whom, for what, how long."""
        told = f"The approval of '{self.approver}'"
        if self.approver not in board.approvers:
            known = join_names(sorted(board.approvers))
            raise GovernError(
                f"'{self.approver}' is not on the board of '{party}', so cannot approve. The board: {known}."
            )
        if (self.agreement, self.party) != (agreement, party):
            raise GovernError(
                f"{told} is for '{self.party}' under the agreement {self.agreement[:12]}…, and not for '{party}' under "
                f"{agreement[:12]}…."
            )
        if not is_signed(self._content(), self.signature, board.approvers[self.approver]):
            raise GovernError(f"{told} is not signed with the key that the policy names for '{self.approver}'.")
        if self.passes < 1:
            raise GovernError(f"{told} is for {self.passes} passes. It must be for one or more.")
        if self.until - self.given > board.seconds:
            raise GovernError(
                f"{told} holds for {self.until - self.given:,} seconds; the policy allows {board.seconds:,.0f} at most."
            )
        if self.given > now + _CLOCKS:
            raise GovernError(f"{told} is given at {at(self.given)}, which is not yet: it is {at(now)}.")
        if self.until <= now:
            raise GovernError(f"{told} has expired at {at(self.until)}.")

    def fits(self, of: Pass, now: float) -> bool:
        """Whether it is for this pass, and holds now."""
        return (
            self.purpose == of.purpose
            and self.asker in (None, of.asker)
            and self.only in (None, of.digest)
            and self.agreement == of.agreement
            and now < self.until
        )

    def values(self) -> dict[str, Any]:
        """What is kept of it; `read(Approval, values)` reads it back."""
        return asdict(self)

    def _content(self) -> bytes:
        signed = asdict(self)
        del signed["signature"]
        return canonical({"approves": signed})


def choose(
    board: Board, kept: Sequence[tuple[Approval, int]], of: Pass, party: str, now: float
) -> tuple[list[Approval], list[str]]:
    """Approvals to spend on a pass, one of each of the needed people, and who has one for it at all.

    `kept` are approvals with how many passes were made with each. Where there are too few people, none are chosen. Of
    one person the approval that expires first is taken; of the people those with most passes left, so that the
    approvals are enough for as many passes as they can be.
    """
    usable: dict[str, list[tuple[Approval, int]]] = {}
    for approval, spent in kept:
        try:
            approval.check(board, of.agreement, party, now)
        except GovernError:
            continue
        if spent < approval.passes and approval.fits(of, now):
            usable.setdefault(approval.approver, []).append((approval, approval.passes - spent))
    if len(usable) < board.needed:
        return [], sorted(usable)
    people = sorted(usable, key=lambda name: (-sum(left for _, left in usable[name]), name))[: board.needed]
    chosen = [min(usable[name], key=lambda each: (each[0].until, each[0].nonce))[0] for name in people]
    return chosen, sorted(usable)
