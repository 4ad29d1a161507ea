"""`modelkeep govern approve`, `withdraw`, `restore` and `pending` on a party's real folder, also while it works."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from govern.asking import Party, a_pass
from modelkeep.cli.govern.consent import approve, pending, restore, withdraw
from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, InputError
from modelkeep.govern.consent import Policy
from modelkeep.govern.identity import Identity
from processes import PATIENCE

PURPOSES = ("train", "evaluate", "infer", "release", "check")
app = typer.Typer()
for verb in (approve, withdraw, restore, pending):
    app.command()(verb)


def command(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "120"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def told(*arguments: str | Path) -> Any:
    return json.loads(command(*arguments, "--json"))


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Party]:
    """Bob at work: his process has the ledger and the consents open."""
    Identity.at(tmp_path, "bob")
    party = Party(tmp_path, now=time.time())
    yield party
    party.close()


def test_a_withdrawal_counts_at_once_and_until_it_is_restored(bob: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    decision = bob.by(Policy())
    decision.require_not_withdrawn(a_pass())
    told_each = "".join(f"{purpose}: withdrawn (the contract has ended)\n" for purpose in PURPOSES)
    assert command("withdraw", bob.folder, "--reason", "the contract has ended") == told_each
    with pytest.raises(ConsentRefused, match="the contract has ended"):
        decision.require_not_withdrawn(a_pass())
    monkeypatch.chdir(bob.folder)  # the folder by default
    others = {purpose: "the contract has ended" for purpose in PURPOSES if purpose != "train"}
    assert told("restore", "--purpose", "train") == {"withdrawn": others}
    decision.require_not_withdrawn(a_pass())
    assert command("restore") == "".join(f"{purpose}: by the policies\n" for purpose in PURPOSES)
    assert told("withdraw", "--purpose", "infer") == {"withdrawn": {"infer": ""}}
    assert "infer: withdrawn\n" in command("withdraw", "--purpose", "infer")


def test_a_real_process_withdraws(bob: Party) -> None:
    """At once: it does not wait for torch to be imported."""
    code = (
        "import sys, typer; from modelkeep.cli.govern.consent import withdraw\n"
        "try: typer.run(withdraw)\nfinally: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, bob.folder, "--reason", "no"], check=True, timeout=PATIENCE)
    with pytest.raises(ConsentRefused, match="to train: no"):
        bob.by(Policy()).require_not_withdrawn(a_pass())


def test_a_waiting_pass_is_listed_approved_and_runs(bob: Party) -> None:
    decision = bob.by(Policy(human=True))
    assert command("pending", bob.folder) == "no pass waits for a person\n"
    assert told("pending", bob.folder) == []
    with pytest.raises(ConsentPending):
        decision.decide(a_pass(7, data="[red]" + "d" * 59))
    listed = command("pending", bob.folder)
    assert all(word in listed for word in ("7", "16", "train", "alice", "[red]ddddddddddd", "s ago"))
    (waiting,) = told("pending", bob.folder)
    assert (waiting["number"], waiting["asker"], waiting["asked"]) == (7, "alice", bob.now)
    answer = told("approve", bob.folder, "--purpose", "train", "--passes", "2")
    assert (answer["approved"], answer["withdrawn"]) == (2, None)
    assert 86000 < answer["until"] - bob.now < 87000
    decision.decide(a_pass(7, data="[red]" + "d" * 59))
    assert told("pending", bob.folder) == []
    assert "2 approved passes to train are left" in command("approve", bob.folder, "--purpose", "train")


def test_an_approval_until_a_time_for_one_who_asks(bob: Party) -> None:
    asked = ("approve", bob.folder, "--purpose", "infer", "--asker", "carol", "--until")
    assert told(*asked, "2999-12-31T18:00")["until"] == told(*asked, "2999-12-31T20:00+02:00")["until"]
    assert command(*asked, "2999-12-31") == (
        "approved until tue 2999-12-31 00:00:00 UTC; 3 approved passes to infer are left\n"
    )
    bob.by(Policy(human=True)).decide(a_pass(0, "infer", asker="carol"))
    with pytest.raises(ConsentPending):
        bob.by(Policy(human=True)).decide(a_pass(1, "infer", asker="alice"))
    with pytest.raises(InputError, match=r"mon 2001-01-01 00:00:00 UTC is over: it is"):
        command(*asked, "2001-01-01")
    with pytest.raises(InputError, match=r"until.*tomorrow"):
        command(*asked, "tomorrow")


def test_an_approval_says_that_consent_is_withdrawn(bob: Party) -> None:
    command("withdraw", bob.folder, "--reason", "no")
    assert "but consent to train is withdrawn (no)" in command("approve", bob.folder, "--purpose", "train")
    assert told("approve", bob.folder, "--purpose", "train")["withdrawn"] == "no"


@pytest.mark.parametrize("verb", ["approve", "withdraw", "restore", "pending"])
def test_nothing_is_made_where_no_party_is(tmp_path: Path, verb: str) -> None:
    with pytest.raises(GovernError):
        command(verb, tmp_path, *(["--purpose", "train"] if verb == "approve" else []))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [("approve",), ("approve", "--purpose", "sell"), ("approve", "--purpose", "train", "--passes", "0")],
    ids=["no-purpose", "unknown-purpose", "no-pass"],
)
def test_what_cannot_be_approved_is_a_mistake_in_the_command(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, list(arguments)).exit_code == 2
