"""`modelkeep privacy`: the files, members as rows and hashes, one record, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cli.running import Run
from modelkeep import Result
from modelkeep.privacy.records import record_hashes
from modelkeep.report import PrivacyReport
from modelkeep.zoo import datasets


def found_in(folder: Path) -> PrivacyReport:
    found = Result.from_json((folder / "privacy.json").read_text())
    assert isinstance(found, PrivacyReport)
    return found


def test_it_writes_a_page_a_picture_and_figures(modelkeep: Run, cancer_model: Path, tmp_path: Path) -> None:
    run = modelkeep("privacy", cancer_model, "--members", "breast-cancer", "--non-members", "breast-cancer")
    assert run.code == 0, run.err
    out = tmp_path / "modelkeep-out"
    assert {path.name for path in out.iterdir()} == {*("privacy.html", "privacy.json", "privacy-roc.png", "index.html")}
    assert np.asarray(Image.open(out / "privacy-roc.png")).std() > 1
    found = found_in(out)
    assert [each.attack for each in found.attacks] == ["naive", "loss", "modified-entropy", "noise", "quantile"]
    assert len(found.strongest.members) == 455
    assert len(found.strongest.non_members) == 57  # the other half of the test part is the attacker's


def test_members_are_named_by_row_or_hash_and_one_is_asked_about(
    modelkeep: Run, cancer_model: Path, tmp_path: Path
) -> None:
    test = datasets.load("breast-cancer", "test")
    hashes = record_hashes(test)
    (tmp_path / "members.txt").write_text("\n".join([*map(str, range(10, 30)), *(each[:12] for each in hashes[30:50])]))
    arguments = ("--data", "breast-cancer", "--members", "members.txt", "--method", "loss", "--record", hashes[15][:12])
    run = modelkeep("privacy", cancer_model, *arguments, "--json")
    assert run.code == 0, run.err
    found = found_in(tmp_path / "modelkeep-out")
    assert json.loads(run.out)["kind"] == "privacy"
    assert [(e.row, e.hash) for e in found.asked] == [(15, hashes[15][:12])]  # numbered as in the user's own data
    assert all(10 <= e.row < 50 and e.hash == hashes[e.row][:12] for e in found.exposed)
    assert len(found.attacks[0].members) == 40
    assert len(found.attacks[0].non_members) == 37
    run = modelkeep("privacy", cancer_model, *arguments[:-1], "3")
    assert "Row 3 is no member" in run.err


def test_a_recipe_adds_the_attacks_that_train_networks(modelkeep: Run, cancer_model: Path, tmp_path: Path) -> None:
    members = ("--members", "breast-cancer", "--non-members", "breast-cancer")
    run = modelkeep("privacy", cancer_model, *members, "--method", "rmia", "--shadows", "2", "--epochs", "1")
    assert run.code == 0, run.err
    found = found_in(tmp_path / "modelkeep-out")
    assert found.attacks[0].provenance.settings["shadows"] == 2
    assert any(each.why for each in found.exposed)
    assert "again: modelkeep privacy MODEL" in str(found.attacks[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--members", "breast-cancer"), "--non-members DATA"),
        (("--members", "none.txt", "--data", "breast-cancer"), "a row number or hash per line"),
        (("--members", "breast-cancer", "--non-members", "breast-cancer", "--method", "lira"), "must know how"),
        (("--members", "breast-cancer", "--non-members", "breast-cancer", "--method", "lire"), "Did you mean 'lira'"),
    ],
)
def test_what_cannot_be_done_is_said(
    modelkeep: Run, cancer_model: Path, arguments: tuple[str, ...], message: str
) -> None:
    run = modelkeep("privacy", cancer_model, *arguments)
    assert run.code == 2
    assert message in " ".join(run.err.split())
