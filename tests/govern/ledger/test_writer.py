"""The writer: what comes in a pass that runs again must be what came before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import pytest
import torch

from govern.asking import a_pass
from modelkeep.core.errors import WireError
from modelkeep.core.signing import Signer
from modelkeep.govern.ledger.attempts import Attempt
from modelkeep.govern.ledger.entry import Crossing, Entry
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.ledger.writer import LedgerWriter
from modelkeep.govern.passes import Pass
from modelkeep.govern.wire.message import Digest
from modelkeep.govern.wire.settings import Wire

ONE, OTHER = torch.ones(3), torch.zeros(3)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite3", "bob", Signer.at(tmp_path / "key.pem")) as made:
        yield made


@pytest.fixture
def writer(ledger: Ledger) -> Iterator[LedgerWriter]:
    made = LedgerWriter(ledger, Wire())
    yield made
    made.close()


def finish(ledger: Ledger, writer: LedgerWriter, of: Pass | None = None) -> Entry:
    """Let the writer log a pass, without all that a session does about it."""
    logged: list[Entry] = []

    def prepare(sent: list[Crossing], received: list[Crossing]) -> Receipt:
        logged.append(ledger.prepare(of or a_pass(), (), sent, received))
        return Receipt("bob", ledger.event("prepared", ""))

    writer.finish(prepare).result()
    return logged[0]


def test_order_of_arrival_does_not_change_the_entry(ledger: Ledger, writer: LedgerWriter) -> None:
    entries = []
    for order in ((0, 1, 2), (2, 0, 1)):
        writer.begin(a_pass())
        for part in order:
            writer.note_received("alice", "activations", 0, part, [torch.full((2,), part)])
            writer.note_sent("alice", "gradients", 0, part, [torch.full((2,), -part)])
        entries.append(finish(ledger, writer))
    assert entries[0] == entries[1]
    assert [crossing.part for crossing in entries[0].received] == [0, 1, 2]
    assert ledger.length == 1


def test_digests_that_were_put_off_are_those_of_what_crossed(ledger: Ledger, writer: LedgerWriter) -> None:
    writer.begin(a_pass())
    writer.note_sent("alice", "gradients", 0, 0, [ONE])
    writer.catch_up()
    writer.note_received("alice", "activations", 0, 0, [OTHER])  # until the end of the pass
    entry = finish(ledger, writer)
    for crossing, tensor in ((entry.sent[0], ONE), (entry.received[0], OTHER)):
        digest = Digest(Wire())
        digest.update([tensor])
        assert crossing.digest == digest.hexdigest()


def test_tensors_without_a_digest_end_the_pass(ledger: Ledger, writer: LedgerWriter) -> None:
    writer.begin(a_pass())
    writer.note_sent("alice", "gradients", 0, 0, [ONE.to_sparse()])
    with pytest.raises(RuntimeError):
        finish(ledger, writer)
    assert ledger.length == 0


@pytest.mark.parametrize("committed", [True, False])
def test_logged_pass_takes_nothing_else(committed: bool, ledger: Ledger, writer: LedgerWriter) -> None:
    writer.begin(a_pass())
    writer.note_received("alice", "activations", 0, 0, [ONE])
    entry = finish(ledger, writer)
    if committed:
        ledger.commit(0)
    fresh = LedgerWriter(ledger, Wire())  # after a restart only the ledger remembers
    for again in (writer, fresh):
        again.begin(a_pass())
        for peer, at, part, tensor in (("alice", 0, 0, OTHER), ("alice", 0, 1, ONE), ("alice", 1, 0, ONE)):
            with pytest.raises(WireError, match="sent other activations than before"):
                again.note_received(peer, "activations", at, part, [tensor])
        again.note_received("alice", "activations", 0, 0, [ONE])
        assert finish(ledger, again) == entry
    fresh.close()


def test_pass_that_broke_off_takes_nothing_else_where_something_came(ledger: Ledger, writer: LedgerWriter) -> None:
    writer.begin(a_pass())
    writer.note_received("alice", "activations", 0, 0, [ONE])
    for came in (writer.received(), []):  # it is not forgotten when it breaks off once more, before anything comes
        attempt = Attempt(a_pass(), token_hex(8), "s")
        ledger.attempts.begin(attempt)
        ledger.attempts.end(attempt, "given up", "", came)
        writer.begin(a_pass())
    with pytest.raises(WireError, match="sent other activations than before"):
        writer.note_received("alice", "activations", 0, 0, [OTHER])
    writer.note_received("alice", "activations", 0, 0, [ONE])
    writer.note_received("alice", "activations", 0, 1, [OTHER])  # which had not come before
    assert ledger.length == 0


def test_another_pass_may_bring_something_else(ledger: Ledger, writer: LedgerWriter) -> None:
    writer.begin(a_pass())
    writer.note_received("alice", "activations", 0, 0, [ONE])
    finish(ledger, writer)
    writer.begin(replace(a_pass(), purpose="infer"))  # nobody had committed the one before
    writer.note_received("alice", "activations", 0, 0, [OTHER])
    assert finish(ledger, writer, replace(a_pass(), purpose="infer")).of.purpose == "infer"
