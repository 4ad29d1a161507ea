"""Releases and checks among honest parties: what is let out is asked for, and an honest party is never accused."""

from __future__ import annotations

from pathlib import Path

import pytest

from govern.malice.test_keys import rotate
from govern.malice.test_members import up
from govern.meeting import Meeting, meeting, same_bits
from govern.parties import Host, approve
from govern.session.test_together import CNN
from modelkeep.core.errors import ConsentPending, GovernError
from modelkeep.govern.ledger.audit import audit
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.piece.checkpoints import Checkpoints
from modelkeep.govern.piece.files import assemble, write_piece
from modelkeep.govern.piece.release import find_release
from modelkeep.govern.session.oversight import release
from modelkeep.govern.session.runs import train


def export(split: Meeting, root: Path) -> dict[str, Path]:
    """What `govern export` writes for each party that holds a piece."""
    root.mkdir(exist_ok=True)
    found = {}
    for name in set(split.agreement.holders):
        folder = split.folders[name]
        kept = Checkpoints(folder.checkpoints)
        piece = kept.read(kept.steps()[-1]).part("piece/")
        proof = find_release(read_ledger(folder.ledger))
        found[name] = write_piece(root / f"{name}.safetensors", split.agreement, name, piece, proof)
    return found


def test_what_all_let_out_makes_the_model_and_nothing_else_does(tmp_path: Path, hosts: dict[str, Host]) -> None:
    split = meeting(tmp_path / "all", hosts, *CNN, ["2"], ["alice", "bob"], "carol")
    with split.up(), split.alice(patience=0.0) as leader:
        train(leader, updates=4)
        with pytest.raises(GovernError, match="was not released"):
            assemble(split.agreement, export(split, tmp_path / "early"))
        with pytest.raises(ConsentPending, match="waits for a person"):
            release(leader)
        for name in ("bob", "carol"):
            approve(split.folders[name], "release")
        told = release(leader, to="bob")
        assert (told.receiver, told.step, sorted(told.pieces)) == ("bob", 4, ["alice", "bob"])
        released = export(split, tmp_path / "released")
        assert same_bits(dict(assemble(split.agreement, released).module.state_dict()), split.alone(updates=4))
        train(leader)
    later = export(split, tmp_path / "later")
    with pytest.raises(GovernError, match="is another one than it let out after 4 updates"):
        assemble(split.agreement, {**released, "bob": later["bob"]})
    found = audit(split.agreement, {name: folder.ledger for name, folder in split.folders.items()})
    assert found.sound
    assert found.passes()["release", "alice"] == 1


def test_a_release_counts_under_the_key_that_spoke_then(tmp_path: Path) -> None:
    split = meeting(tmp_path / "all", {}, *CNN, ["2"], ["alice", "bob"], "carol")
    with up(split) as leader:
        train(leader, updates=2)
    rotate(split, "bob")
    for name in ("bob", "carol"):
        approve(split.folders[name], "release")
    with up(split) as leader:
        release(leader)
    released = export(split, tmp_path / "released")
    assert same_bits(dict(assemble(split.agreement, released).module.state_dict()), split.alone(updates=2))
