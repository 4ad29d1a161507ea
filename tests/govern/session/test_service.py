"""A party that serves also leads: commands hand their work over, parties take turns, who hangs up ends nothing else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from govern.networks import digit_model
from govern.parties import found
from govern.serving import at_work
from modelkeep import Data
from modelkeep.core import progress
from modelkeep.core.errors import ConsentRefused, FolderInUse, GovernError, InputError
from modelkeep.core.signing import canonical
from modelkeep.govern import ConsentState
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.folder import Folder
from modelkeep.govern.ledger import audit, read_ledger
from modelkeep.govern.session.control import shorten_address
from modelkeep.govern.session.handover import hand_over
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.requests import Outcome, Request
from modelkeep.govern.session.runs import Evaluated, Trained
from modelkeep.training import SGD, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from processes import PATIENCE, wait_until

EVALUATION = Request(verb="evaluate", data="digits", patience=PATIENCE)


@pytest.fixture(scope="module")
def data() -> Data:
    return datasets.load("digits", "train")


@pytest.fixture(scope="module")
def agreed(tmp_path_factory: pytest.TempPathFactory, data: Data) -> tuple[Agreement, dict[str, Folder]]:
    recipe = Recipe(steps=4, batch_size=32, optimizer=SGD(momentum=0.9), learning_rate=0.1)
    root = tmp_path_factory.mktemp("serve")
    holders = ["alice", "bob"]
    return found(root, digit_model(data), data, cuts=["2"], holders=holders, labels="carol", recipe=recipe)


@pytest.fixture(scope="module")
def parties(agreed: tuple[Agreement, dict[str, Folder]], data: Data) -> Iterator[dict[str, Party]]:
    with at_work(*agreed[1].values(), data=data) as served:
        yield served


def ask(folder: Folder, request: Request, told: list[str] | None = None) -> Outcome:
    outcome = hand_over(folder.control, request, (told if told is not None else []).append)
    assert outcome is not None
    return outcome


def test_all_lead_at_once_and_each_gets_its_turn(
    agreed: tuple[Agreement, dict[str, Folder]], parties: dict[str, Party], data: Data
) -> None:
    agreement, folders = agreed
    asked = [(folder, EVALUATION) for folder in folders.values()]
    with ThreadPoolExecutor(len(asked) + 1) as commands:
        training = commands.submit(ask, folders["alice"], Request(verb="train", data="digits", patience=PATIENCE))
        outcomes = [commands.submit(ask, *each) for each in asked]
        trained = training.result().result
        for outcome in outcomes:
            assert isinstance(outcome.result().result, Evaluated)
    assert isinstance(trained, Trained)
    assert (trained.updates, trained.leader) == (4, "alice")

    # The same bits as in one process, and the same answers from whichever side they are asked for.
    alone = digit_model(data)
    fit(alone, data, cross_entropy, agreement.recipe, seed=agreement.seed)
    test = datasets.load("digits", "test")
    for name in ("bob", "carol"):
        answered = ask(folders[name], Request(verb="infer", data="digits"))
        assert answered.logits is not None
        torch.testing.assert_close(answered.logits, alone.logits(test.x))
        assert list(answered.classes) == [str(digit) for digit in range(10)]
    found_wrong = audit(agreement, {name: folder.ledger for name, folder in folders.items()})
    assert found_wrong.sound, found_wrong.rows()


def test_who_hangs_up_ends_its_request_and_nothing_else(
    agreed: tuple[Agreement, dict[str, Folder]], parties: dict[str, Party]
) -> None:
    folders = agreed[1]
    state = ConsentState(folders["carol"].consent)
    try:
        state.withdraw("not now", "infer")
        with pytest.raises(ConsentRefused, match="not now"):
            ask(folders["bob"], Request(verb="infer", data="digits"))
        state.restore()
        assert ask(folders["bob"], EVALUATION).result is not None
    finally:
        state.close()

    # A request that waits: Alice's session is held open by another command, which then hangs up.
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with shorten_address(folders["alice"].control) as address:
        line.connect(address)
    missing = Request(verb="evaluate", data="digits", labels_at="carol", patience=PATIENCE)
    party = parties["alice"]
    entered, go_on = threading.Event(), threading.Event()
    ask_first = party.passes.ask

    def slowly(of: object) -> object:
        entered.set()
        go_on.wait(PATIENCE)
        return ask_first(of)  # type: ignore[arg-type]

    party.passes.ask = slowly  # type: ignore[method-assign,assignment]
    try:
        line.sendall(canonical(asdict(missing)) + b"\n")
        assert entered.wait(PATIENCE)
        line.close()
    finally:
        party.passes.ask = ask_first  # type: ignore[method-assign]
        go_on.set()
    told: list[str] = []
    assert ask(folders["bob"], EVALUATION, told).result is not None
    wait_until(lambda: not party.passes.leader)


def test_what_a_request_does_wrong_is_told_as_it_was_meant(
    agreed: tuple[Agreement, dict[str, Folder]], parties: dict[str, Party]
) -> None:
    folders = agreed[1]
    with pytest.raises(InputError, match="'alice' has the data, so it leads the training, not 'bob'"):
        ask(folders["bob"], Request(verb="train", data="digits"))
    with pytest.raises(Exception, match="no-such-set"):
        ask(folders["bob"], Request(verb="evaluate", data="no-such-set"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        with shorten_address(folders["bob"].control) as address:
            line.connect(address)
        line.sendall(b'{"verb": "sell", "data": "digits"}\n')
        with line.makefile("rb") as answers:
            assert "This is not a request" in json.loads(answers.readline())["text"]
    with pytest.raises(FolderInUse, match="Another process works in"), Party(folders["bob"]):
        pass
    assert read_ledger(folders["bob"].ledger).party == "bob"  # to look needs no turn


def test_the_progress_is_seen_by_the_command(
    agreed: tuple[Agreement, dict[str, Folder]], parties: dict[str, Party]
) -> None:
    class Seen:
        def __init__(self) -> None:
            self.names = list[str]()
            self.done = 0.0

        def opened(self, task: progress.Task) -> None:
            self.names.append(task.name)

        def changed(self, task: progress.Task) -> None:
            self.done = task.done

        def closed(self, task: progress.Task) -> None:
            self.names.append("end")

    seen = Seen()
    with progress.watch(seen):
        ask(agreed[1]["carol"], EVALUATION)
    assert seen.names == ["evaluating together", "end"]
    assert seen.done == len(datasets.load("digits", "test"))


def test_a_process_that_ends_tells_who_waits(tmp_path: Path) -> None:
    from modelkeep.govern.session.control import ControlSocket

    path = tmp_path / "control.sock"
    with ThreadPoolExecutor(1) as commands:
        with ControlSocket(path) as control:
            answer = commands.submit(hand_over, path, EVALUATION, lambda text: None)
            wait_until(lambda: control.first() is not None)
        with pytest.raises(GovernError, match="served"):
            answer.result(PATIENCE)
    assert hand_over(path, EVALUATION, lambda text: None) is None
