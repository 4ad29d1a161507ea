"""Runs: to train, to evaluate and to ask a governed model, from the side of the party that leads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.govern.passes import Pass, Purpose
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.pass_protocol import MakePass
from modelkeep.training import interruption


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained(Result, kind="trained"):
    """A training in which every update had every party's consent.

    `losses` are those of the passes of this session, by the update they led to; `parts` is the fingerprint of each
    party's part of the weights; `sent` and `received` are this party's bytes.
    """

    leader: str
    updates: int
    total: int
    losses: tuple[tuple[int, float], ...]
    recoveries: int
    sent: int
    received: int
    parts: dict[str, str]

    def rows(self) -> list[tuple[str, str]]:
        first, last = (f"{self.losses[i][1]:.4g}" if self.losses else "none" for i in (0, -1))
        return [
            ("led by", self.leader),
            ("updates", f"{self.updates} of {self.total}"),
            ("loss, first and last of this session", f"{first}, {last}"),
            ("faults recovered from", str(self.recoveries)),
            ("sent, received", f"{self.sent / 1e6:.1f} MB, {self.received / 1e6:.1f} MB"),
            *((f"part of {name}", text[:16] + "…") for name, text in sorted(self.parts.items())),
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluated(Result, kind="evaluated"):
    """How well a governed model does on data that one party has the inputs of, and one the labels."""

    accuracy: Estimate
    loss: float
    step: int

    def rows(self) -> list[tuple[str, str]]:
        return [("accuracy", str(self.accuracy)), ("loss", f"{self.loss:.4g}"), ("after updates", str(self.step))]


def train(leader: Leader, *, updates: int | None = None) -> Trained:
    """Go on with the agreed training, until it is complete or has had `updates` in all.

    Ctrl-C ends it after a pass; all parties keep where they stand, and the next call goes on from there.
    """
    party, agreement = leader.party, leader.party.agreement
    if party.name != agreement.data.holder:
        raise InputError(f"'{agreement.data.holder}' has the data, so it leads the training, not '{party.name}'.")
    until = party.pieces.total if updates is None else min(updates, party.pieces.total)
    losses: dict[int, float] = {}
    make = training_passes(party)
    with (
        measured(agreement.seed, data=agreement.data.fingerprint) as provenance,
        interruption.hold_back(leader.stopped is None) as interrupted,
        progress.task("training together", until) as task,
    ):
        stopped = leader.stopped or interrupted
        leader.meet()
        task.advance(party.pieces.step)
        while True:
            while party.pieces.step < until and not stopped():
                found = leader.run("train", make)
                losses[party.pieces.step] = found["loss"]
                task.advance(party.pieces.step - task.done, f"loss {found['loss']:.4g}")
            sent, received = party.links.bytes
            parts = leader.close()
            if party.pieces.step >= until or stopped():  # else a fault at the very end has taken all back
                break
        return Trained(
            provenance=provenance(),
            leader=party.name,
            updates=party.pieces.step,
            total=party.pieces.total,
            losses=tuple(sorted(losses.items())),
            recoveries=leader.recoveries,
            sent=sent,
            received=received,
            parts=parts,
        )


def training_passes(party: Party) -> MakePass:
    """The passes of the agreed training, as `Leader.run` asks for them."""
    agreement = party.agreement

    def make(number: int, step: int) -> Pass:
        return Pass(
            agreement=agreement.fingerprint,
            number=number,
            purpose="train",
            asker=party.name,
            source=party.name,
            sink=agreement.labels.holder,
            step=step,
            data=agreement.data.fingerprint,
            labels=agreement.labels.fingerprint,
            rows=len(party.pieces.batches.index(step)),
            parts=agreement.recipe.micro_batches,
        )

    return make


def evaluate(leader: Leader, data: Data, *, labels_at: str | None = None, batch: int = 512) -> Evaluated:
    """The accuracy on `data`, whose labels lie with this party or with the one called `labels_at`."""
    party = leader.party
    labels = fingerprint({"y": data.y})
    sink = labels_at or party.name
    sums = {"loss": 0.0, "correct": 0.0}
    with (
        measured(party.agreement.seed, data=data.fingerprint()) as provenance,
        party.materials.lend(data),
        progress.task("evaluating together", len(data)) as task,
    ):
        for first in range(0, len(data), batch):
            rows = min(batch, len(data) - first)
            found = leader.run("evaluate", _make_pass(party, "evaluate", data.x, sink, labels, first, rows))
            sums = {name: total + found[name] for name, total in sums.items()}
            task.advance(rows)
        step = party.pieces.step
        leader.close()
        return Evaluated(
            provenance=provenance(),
            accuracy=Estimate.rate(int(sums["correct"]), len(data)),
            loss=sums["loss"] / len(data),
            step=step,
        )


def infer(leader: Leader, x: torch.Tensor, *, batch: int = 512) -> torch.Tensor:
    """The logits `(n, classes)` for this party's inputs `x: (n, *input_shape)`."""
    party = leader.party
    found = []
    with progress.task("asking together", len(x)) as task:
        for some in torch.split(x, batch):
            with party.materials.lend(some):
                leader.run("infer", _make_pass(party, "infer", some, party.name, "", 0, len(some)))
            found.append(party.passes.answers)
            task.advance(len(some))
    leader.close()
    return torch.cat(found)


def _make_pass(
    party: Party, purpose: Purpose, x: torch.Tensor, sink: str, labels: str, first: int, rows: int
) -> MakePass:
    """A pass of these inputs, as `Leader.run` asks for it."""
    of = Pass(
        agreement=party.agreement.fingerprint,
        number=0,
        purpose=purpose,
        asker=party.name,
        source=party.name,
        sink=sink,
        step=0,
        data=fingerprint({"x": x}),
        labels=labels,
        rows=rows,
        first=first,
    )
    return lambda number, step: replace(of, number=number, step=step)
