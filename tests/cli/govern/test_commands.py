"""`modelkeep govern` as people use it: two folders, a process that serves, and what they are told."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from cli.governed import found, serving
from cli.running import Run
from govern.serving import at_work
from modelkeep import Model
from modelkeep.cli import govern
from modelkeep.cli.govern.identity import spoken
from modelkeep.cli.govern.view import line, view
from modelkeep.govern import Agreement, Folder, Identity, Party, Pass
from modelkeep.govern.piece.files import join
from modelkeep.training import cross_entropy, fit
from modelkeep.zoo import datasets
from processes import PATIENCE


def test_two_parties_train_refuse_ask_and_are_audited(modelkeep: Run, tmp_path: Path) -> None:
    def told(*arguments: str) -> Any:
        ran = modelkeep("govern", *arguments, "--json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out.splitlines()[-1])

    found(modelkeep)
    agreement = Agreement.read(tmp_path / "agreement.json")
    torch.manual_seed(0)
    alone = agreement.build()
    with serving(tmp_path / "bob") as bob:
        assert told("train", "alice", "--data", "digits", "--updates", "5")["updates"] == 5
        told("withdraw", "bob", "--reason", "the contract has ended")
        for verb in ("train", "infer"):
            ran = modelkeep("govern", verb, "alice", "--data", "digits")
            assert ran.code in (2, 4)
            assert "the contract has ended" in ran.err
        assert not (tmp_path / "answers.npz").exists()
        assert set(told("status", "bob")["withdrawn"]) == {"train", "evaluate", "infer", "release", "check"}
        told("restore", "bob")
        assert told("train", "alice", "--data", "digits")["updates"] == 12
        accuracy = told("evaluate", "alice", "--data", "digits", "--labels-at", "bob")["accuracy"]["value"]
        assert told("infer", "alice", "--data", "digits")["inputs"] == 359
        assert "piece" not in told("export", "bob", "--out", "copies")
        told("approve", "bob", "--purpose", "release")
        assert told("release", "alice")["step"] == 12
        exported = {name: told("export", name, "--out", "copies") for name in ("alice", "bob")}  # Bob still serves
        bob.send_signal(signal.SIGTERM)
        out, err = bob.communicate(timeout=PATIENCE)
        assert (bob.returncode, err) == (0, "")
        assert "the contract has ended" in out
        assert "12 to train" in out.splitlines()[-1]

    ledgers = [exported[name]["ledger"] for name in exported]
    assert modelkeep("govern", "audit", "agreement.json", *ledgers).code == 0
    status = told("status", "bob")
    assert (status["updates"], status["committed"], status["entries"]) == (12, 15, 15)
    assert {"purpose": "infer", "asker": "alice", "passes": 1} in status["passes"]
    assert "asked by alice" in modelkeep("govern", "status", "bob").out

    # The whole model, put together, is the one that a single process trains, and the one that was asked.
    pieces = [exported[name]["piece"] for name in exported]
    whole = Model.load(tmp_path / told("assemble", "agreement.json", *pieces)["model"])
    fit(alone, datasets.load("digits", "train"), cross_entropy, agreement.recipe, seed=agreement.seed)
    for name, tensor in alone.module.state_dict().items():
        assert torch.equal(whole.module.state_dict()[name], tensor), name
    test = datasets.load("digits", "test")
    answers = np.load(tmp_path / "answers.npz")
    assert np.array_equal(answers["answers"], whole.predict(test.x).numpy())
    assert accuracy == pytest.approx(float((answers["answers"] == test.y.numpy()).mean()))
    again = modelkeep("govern", "assemble", "agreement.json", *pieces)
    assert "not overwritten" in again.err

    copy = tmp_path / exported["alice"]["ledger"]
    copy.write_text(copy.read_text().replace('"purpose":"infer"', '"purpose":"train"', 1))
    audited = modelkeep("govern", "audit", "agreement.json", *ledgers, "--json")
    assert audited.code == 1
    kinds = {(each["kind"], each["party"], each["number"]) for each in json.loads(audited.out)["findings"]}
    assert ("signature", "alice", 13) in kinds
    twice = modelkeep("govern", "audit", "agreement.json", "alice", *ledgers)
    assert "both ledgers of 'alice'" in twice.err


def test_parties_that_serve_also_lead_and_a_board_approves(modelkeep: Run, tmp_path: Path) -> None:
    found(modelkeep)
    people = {name: Identity.at(tmp_path / name, name) for name in ("ann", "ben", "eve")}
    keys = {name: people[name].public_key for name in ("ann", "ben")}
    folders = {name: Folder(tmp_path / name) for name in ("alice", "bob")}
    policy = {"board": {"approvers": keys, "needed": 2}, "most": {"infer": 3}, "purposes": ["train", "infer"]}
    folders["bob"].policy.write_text(json.dumps(policy))

    def approve(name: str, *more: str, key: str = "") -> str:
        words = ("approve", "bob", "--purpose", "infer", "--as", name, "--key", f"{key or name}/key.pem", *more)
        ran = modelkeep("govern", *words)
        return " ".join((ran.out + ran.err).split())

    with at_work(*folders.values(), data=datasets.load("digits", "train")):
        ran = modelkeep("govern", "infer", "alice", "--data", "digits", "--patience", "0")
        assert "0 of the board of 'bob' have approved it, and 2 must" in " ".join(ran.err.split())
        assert "say --as NAME" in modelkeep("govern", "approve", "bob", "--purpose", "infer").err
        assert "'eve' is not on the board" in approve("eve")
        assert "not signed with the key" in approve("ann", key="eve")
        assert "1 of the 2 people needed" in approve("ann", "--passes", "5")
        assert "has approved that already" in approve("ann")
        assert "Pass 9 does not wait" in approve("ben", "--pass", "9")
        assert "2 of the 2 people needed have approved: ann, ben" in approve("ben", "--pass", "0")
        ran = modelkeep("govern", "infer", "alice", "--data", "digits", "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out.splitlines()[-1])["inputs"] == 359
        ran = modelkeep("govern", "train", "bob", "--data", "digits")
        assert (ran.code, "'alice' has the data" in ran.err) == (2, True)

    shown = modelkeep("govern", "status", "bob").out
    assert max(map(len, shown.splitlines())) <= 80
    for words in (
        "infer        359  completed",
        "refused",
        "'ann' of the board approves 5 passes to infer",
        "approved by ann, ben",
    ):
        assert words in shown
    told = json.loads(modelkeep("govern", "status", "bob", "--json").out)
    assert told["left"]["infer"] == 2
    assert "2 of 2 must approve (ann 4)" in " ".join(told["budgets"][2]["now"])
    audited = modelkeep("govern", "audit", "agreement.json", "alice", "bob").out
    assert audited.startswith("Nothing wrong under the agreement")
    assert max(map(len, audited.splitlines())) <= 80
    assert "refused at bob" in audited


def test_who_does_not_sign_changes_nothing(modelkeep: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found(modelkeep)
    unsigned = json.loads((tmp_path / "agreement.json").read_text()) | {"signatures": {}}
    (tmp_path / "new.json").write_text(json.dumps(unsigned))
    before = (tmp_path / "new.json").read_text()
    monkeypatch.setattr("typer.confirm", lambda question: False)
    ran = modelkeep("govern", "sign", "new.json", "--folder", "alice")
    assert ran.code in (2, 4)
    assert "Not signed" in ran.err
    assert "piece 2, the labels" in ran.out
    assert (tmp_path / "new.json").read_text() == before


def test_the_keys_that_are_read_by_phone_are_those_of_init(modelkeep: Run, tmp_path: Path) -> None:
    made = json.loads(modelkeep("govern", "init", "alice", "--no-passphrase", "--json").out)
    assert made["fingerprint"] == spoken(Identity.read(tmp_path / "alice").public_key)
    found(modelkeep)
    assert made["fingerprint"] in modelkeep("govern", "sign", "agreement.json", "--folder", "bob").out
    assert made["fingerprint"] in modelkeep("govern", "init", "alice", "--no-passphrase").out


def test_an_agreement_that_was_altered_after_a_signature_is_not_completed(modelkeep: Run, tmp_path: Path) -> None:
    found(modelkeep)
    values = json.loads((tmp_path / "agreement.json").read_text())
    values["seed"] = 7
    del values["signatures"]["bob"]
    (tmp_path / "altered.json").write_text(json.dumps(values))
    ran = modelkeep("govern", "sign", "altered.json", "--folder", "bob", "--yes")
    assert ran.code in (2, 4)
    assert "signature of 'alice' is not under this agreement" in ran.err
    assert Agreement.read(tmp_path / "bob" / "agreement.json").seed == 0


def test_another_agreement_does_not_go_under_a_history(modelkeep: Run, tmp_path: Path) -> None:
    found(modelkeep)
    with Party(Folder(tmp_path / "bob")):
        pass
    values = json.loads((tmp_path / "agreement.json").read_text()) | {"seed": 7, "signatures": {}}
    (tmp_path / "other.json").write_text(json.dumps(values))
    ran = modelkeep("govern", "sign", "other.json", "--folder", "bob", "--yes")
    assert "make a new folder" in ran.err
    assert Agreement.read(tmp_path / "bob" / "agreement.json").seed == 0


def _draft(modelkeep: Run, *more: str, file: str = "drafted.json", data: str = "digits") -> Any:
    for name in ("alice", "bob"):
        modelkeep("govern", "init", name, "--no-passphrase")
    parties = ["--party", "alice/alice.party.json", "--party", "bob/bob.party.json"]
    listening = ["--address", "alice=192.0.2.1:7401", "--address", "bob=192.0.2.2:7401"]
    pieces = ["--cut", "conv1_pool", "--holders", "alice,bob", "--data", data]
    return modelkeep("govern", "draft", file, *parties, *listening, *pieces, *more)


def test_whoever_drafts_needs_none_of_the_data(modelkeep: Run, tmp_path: Path) -> None:
    assert _draft(modelkeep, "--model", "small_cnn", "--epochs", "1").code == 0
    material = json.loads(modelkeep("govern", "material", "digits", "--json").out)
    with_data = Agreement.read(tmp_path / "drafted.json")
    with_data.build().save(tmp_path / "model.safetensors")
    same = ("--model", "model.safetensors", "--epochs", "1", "--name", "drafted")
    ran = _draft(modelkeep, *same, "--labels", material["labels"], file="told.json", data=material["inputs"])
    assert ran.code == 0, ran.err
    assert Agreement.read(tmp_path / "told.json").fingerprint == with_data.fingerprint
    ran = _draft(modelkeep, *same, file="other.json", data=material["inputs"])
    assert "--labels" in ran.err


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--model", "small_cnn"), "either epochs or steps"),
        (("--model", "small_cnn", "--steps", "5", "--address", "carol"), "--address is NAME=HOST:PORT. Got 'carol'"),
        (
            ("--model", "small_cnn", "--steps", "5", "--policy", "bob=none.json"),
            "The policy 'none.json' cannot be read",
        ),
        (("--model", "small_cnn", "--steps", "5", "--policy", "bob=bad.json"), "The policy of 'bob'"),
        (("--model", "modelkeep.architectures:lenet", "--steps", "5", "--arguments", "[]"), "must be a JSON object"),
        (("--model", "modelkeep.architectures:lenet", "--steps", "5", "--arguments", "{"), "must be JSON"),
        (("--model", "small_cnn", "--steps", "5", "--cut", "nowhere"), "2 cuts make 3 pieces"),
    ],
    ids=["no length", "no pair", "no policy", "bad policy", "no arguments", "no JSON", "one cut too many"],
)
def test_a_draft_that_cannot_be_is_refused_in_a_sentence(
    modelkeep: Run, tmp_path: Path, more: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "bad.json").write_text('{"purposes": ["sell"]}')
    ran = _draft(modelkeep, *more)
    assert ran.code == 2
    assert sentence in " ".join(ran.err.split())
    assert not (tmp_path / "drafted.json").exists()


def test_a_signed_agreement_is_not_drafted_over(modelkeep: Run, tmp_path: Path) -> None:
    assert _draft(modelkeep, "--model", "small_cnn", "--epochs", "1", "--bf16", "--compress").code == 0
    wire = Agreement.read(tmp_path / "drafted.json").wire
    assert (wire.dtype, wire.compression) == ("bfloat16", "zstd")
    modelkeep("govern", "sign", "drafted.json", "--folder", "bob", "--yes")
    ran = _draft(modelkeep, "--model", "small_cnn", "--epochs", "2")
    assert "is signed already" in ran.err
    assert Agreement.read(tmp_path / "drafted.json").recipe.epochs == 1


def test_weights_that_exist_are_dealt_out_as_they_are(modelkeep: Run, tmp_path: Path, digits_model: Path) -> None:
    assert _draft(modelkeep, "--model", str(digits_model), "--steps", "1").code == 0
    assert (
        "still has all of the weights"
        in modelkeep("govern", "split", digits_model, "dealt/alice", "dealt/bob", "--agreement", "drafted.json").out
    )
    pieces = [f"dealt/{name}/piece.safetensors" for name in ("alice", "bob")]
    agreement = Agreement.read(tmp_path / "drafted.json")
    whole = join(agreement, {name: tmp_path / "dealt" / name / "piece.safetensors" for name in ("alice", "bob")})
    assert whole.fingerprint() == Model.load(digits_model).fingerprint()
    refused = modelkeep("govern", "assemble", "drafted.json", *pieces, "--out", "whole.safetensors")
    assert "was not released" in refused.err


def test_the_view_says_what_a_party_does_and_takes_no_markup_of_others(modelkeep: Run, tmp_path: Path) -> None:
    found(modelkeep)
    with Party(Folder(tmp_path / "bob")) as party:
        of = Pass(party.agreement.fingerprint, 0, "train", "alice", "alice", "bob", 0, "", "", 64)
        party.status.note_consent(of)
        party.status.note_begin(of)
        assert "pass 0 (train, asked by alice)" in _shown(party)
        party.status.note_end(of, {"loss": 1.25})
        party.status.note_refusal(of, "[red]no more[/red]")
        shown = _shown(party)
        for text in ("1 to train", "0 of 12", party.links.address, "1.25", "[red]no more[/red]"):
            assert text in shown
        assert re.fullmatch(r"passes: 1 to train · refusals: 1 to train · updates: 0 of 12 · .*loss: 1.25", line(party))


def _shown(party: Party) -> str:
    console = Console(width=120, no_color=True)
    with console.capture() as capture:
        console.print(view(party))
    return capture.get()


@pytest.mark.parametrize("verb", [verb.__name__ for verb in govern.EXAMPLES])
def test_each_command_teaches_by_an_example(modelkeep: Run, verb: str) -> None:
    ran = modelkeep("govern", verb, "--help")
    assert ran.code == 0
    assert f"Example: modelkeep govern {verb}" in " ".join(ran.out.split())


def test_a_folder_without_an_agreement_cannot_start_and_ctrl_c_stays_as_it_was(modelkeep: Run) -> None:
    before = signal.getsignal(signal.SIGINT)
    modelkeep("govern", "init", "alice", "--no-passphrase")
    for verb in ("serve", "status"):
        ran = modelkeep("govern", verb, "alice")
        assert ran.code in (2, 4)
        assert "agreement" in ran.err
    assert signal.getsignal(signal.SIGINT) is before
