"""Oversight: to let all pieces out, and to check another party's work, from the side of the party that leads."""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_hex

from modelkeep.core.results import Result, measured
from modelkeep.govern.passes import Pass, Purpose
from modelkeep.govern.session.leader import Leader


@dataclass(frozen=True, kw_only=True, eq=False)
class Released(Result, kind="released"):
    """All parties have let their pieces out, for `receiver`; `pieces` are their fingerprints."""

    receiver: str
    step: int
    pieces: dict[str, str]

    def rows(self) -> list[tuple[str, str]]:
        parts = [(f"piece of {name}", f"{text[:16]}…") for name, text in sorted(self.pieces.items())]
        return [("released to", self.receiver), ("after updates", str(self.step)), *parts]


@dataclass(frozen=True, kw_only=True, eq=False)
class Checked(Result, kind="checked"):
    """What came of a check of one party: the pass that was drawn, and what does not follow ("" if all does).

    `recomputed` passes were computed again: those from the last state before the one that was drawn, and that one.
    """

    checker: str
    party: str
    number: int
    recomputed: int
    wrong: str

    @property
    def agrees(self) -> bool:
        """Whether all that the party had sent follows from its piece."""
        return not self.wrong

    @property
    def exit_status(self) -> int:
        """For the command line: 0 where all follows, 1 otherwise."""
        return 0 if self.agrees else 1

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("checked", f"{self.party}, by {self.checker}"),
            ("drawn", f"pass {self.number}"),
            ("recomputed", f"{self.recomputed} passes"),
            ("verdict", self.wrong or "what it sent is what its piece gives, bit for bit"),
        ]


def release(leader: Leader, *, to: str | None = None) -> Released:
    """Ask all parties to let their pieces out, for the party called `to` (this one by default).

    Nothing crosses. Each party states the fingerprint of its piece; then it may export the piece with the statements of
    all, and `assemble` accepts it.
    """
    party = leader.party
    receiver = to or party.name
    party.agreement.member(receiver)
    with measured(party.agreement.seed) as provenance:
        leader.run("release", lambda number, step: _make_pass(leader, "release", receiver, number, step, ""))
        prepared = party.ledger.prove(party.ledger.committed - 1)
        step = party.pieces.step
        leader.close()
    holders = set(party.agreement.holders)
    pieces = {each.party: str(each.event.values.get("piece")) for each in prepared if each.party in holders}
    return Released(provenance=provenance(), receiver=receiver, step=step, pieces=pieces)


def check(leader: Leader, of: str) -> Checked:
    """Check one of the last passes of the party called `of`, which all parties draw together.

    It opens to this party its state, all that it received since, and the inputs or labels that it brought; this one
    computes the passes again.
    """
    party = leader.party
    party.agreement.member(of)
    with measured(party.agreement.seed) as provenance:
        leader.run("check", lambda number, step: _make_pass(leader, "check", of, number, step, token_hex(32)))
        prepared = party.ledger.prove(party.ledger.committed - 1)
        verdict = next(each.event.values["verdict"] for each in prepared if each.party == party.name)
        leader.close()
    return Checked(
        provenance=provenance(),
        checker=party.name,
        party=of,
        number=verdict["number"],
        recomputed=verdict["recomputed"],
        wrong=verdict["wrong"],
    )


def _make_pass(leader: Leader, purpose: Purpose, sink: str, number: int, step: int, data: str) -> Pass:
    party = leader.party
    return Pass(
        agreement=party.agreement.fingerprint,
        number=number,
        purpose=purpose,
        asker=party.name,
        source=party.name,
        sink=sink,
        step=step,
        data=data,
        labels="",
        rows=0,
    )
