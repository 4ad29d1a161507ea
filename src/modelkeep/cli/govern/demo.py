"""`modelkeep govern demo`: Alice and Bob own one model, in two processes; Bob changes his mind, twice."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from modelkeep.cli.checks import check_out
from modelkeep.cli.govern.demo_proof import Story, audits, cheat, worth_alone
from modelkeep.cli.model_options import Seed

if TYPE_CHECKING:
    from modelkeep import Data
    from modelkeep.govern import Agreement, Folder, Party, Trained

_CUT = "conv1_pool"
REASON = "the contract is being renegotiated"
# Whatever ends the demo closes the pipe to Bob's process, and that ends Bob.
_BOB = """
import os, signal, threading
from modelkeep.cli import main
threading.Thread(target=lambda: (os.read(0, 1), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
main()
"""


def demo(
    data: Annotated[
        Literal["mnist", "digits"] | None, typer.Option(help="MNIST by default, if it is here or can be fetched.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the parties' folders and ledgers; a new one by default.")
    ] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the story.")] = False,
) -> None:
    """Alice and Bob train one CNN in two processes, Bob withdraws his consent, gives it back, and both are audited.

    Takes about a minute.
    """
    import torch

    from modelkeep.core.errors import GovernError

    check_out(out)
    story, started = Story(as_json), time.monotonic()
    place = out if out is not None else Path(tempfile.mkdtemp(prefix="modelkeep-govern-"))
    if place.exists() and any(place.iterdir()):
        raise GovernError(f"'{place}' is not empty. Name a new folder with --out.")
    torch.set_num_threads(1)  # as Bob's process: each has a core
    train, test = _data(data, story)
    agreement, folders = _founded(place, train, seed, story)
    with _serving(folders["bob"], train.name, place) as bob:
        story.tell(f"Bob serves in process {bob}; Alice leads in process {os.getpid()}.")
        _together(folders, agreement, train, test, story)
    worth_alone(agreement, folders, test, story)
    audits(agreement, folders, place, story)
    story.scene("Where it all is")
    seconds = time.monotonic() - started
    story.tell(f"{place}: each party's folder with its ledger. The demo took {seconds:.0f} seconds.", seconds=seconds)
    story.tell("Next: modelkeep govern init NAME, on two machines (docs/govern.md).", folder=str(place))
    if as_json:
        typer.echo(json.dumps(story.facts))


def _data(name: str | None, story: Story) -> tuple[Data, Data]:
    """The training and the test part."""
    from modelkeep.core.errors import DataError
    from modelkeep.zoo import datasets

    if name is None:
        try:
            return datasets.load("mnist", "train"), datasets.load("mnist", "test")
        except DataError:
            story.tell("MNIST is not here and cannot be fetched, so the small digits that come along are taken.")
    chosen = name or "digits"
    return datasets.load(chosen, "train"), datasets.load(chosen, "test")


def _founded(place: Path, train: Data, seed: int, story: Story) -> tuple[Agreement, dict[str, Folder]]:
    """Identities, an agreement that both have signed, and the pieces."""
    import torch

    from modelkeep import Model
    from modelkeep.govern import Folder, Identity, Material, draft, split
    from modelkeep.training import Adam, Recipe

    story.scene("Alice and Bob agree")
    identities = {name: Identity.at(place / name, name) for name in ("alice", "bob")}
    folders = {name: Folder(place / name) for name in identities}
    torch.manual_seed(seed)  # the first weights; this process is ours
    arguments = {"input_shape": list(train.input_shape), "classes": len(train.classes)}
    model = Model.load("modelkeep.architectures:small_cnn", like=train, arguments=arguments)
    agreement = draft(
        "demo",
        model,
        parties=[identity.public for identity in identities.values()],
        addresses={name: f"127.0.0.1:{_free_port()}" for name in identities},
        cuts=[_CUT],
        holders=["alice", "bob"],
        data=Material.inputs("alice", train),
        labels=Material.labels("bob", train),
        recipe=Recipe(steps=240, batch_size=64, optimizer=Adam(), learning_rate=3e-3),
        seed=seed,
        checkpoint_every=20,
    )
    for identity in identities.values():
        agreement = agreement.sign(identity)
    for folder in folders.values():
        agreement.write(folder.agreement)
    split(model, agreement, folders)
    story.tell(
        f"A CNN is cut after '{_CUT}'. Alice holds the part before, and {len(train):,} pictures of '{train.name}'; Bob "
        "holds the part behind, and the labels. Neither has the other's. Both have signed who holds what and how it is "
        "trained.",
        data=train.name,
        rows=len(train),
        agreement=agreement.fingerprint,
    )
    return agreement, folders


@contextmanager
def _serving(folder: Folder, data: str, place: Path) -> Iterator[int]:
    """`modelkeep govern serve` in a process of its own; its number. It ends with the block, whatever happens."""
    from modelkeep.core.errors import GovernError

    command = [sys.executable, "-c", _BOB, "govern", "serve", str(folder.path), "--data", data, "--json"]
    with (place / "bob.log").open("w+") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            assert process.stdout is not None
            if not process.stdout.readline():  # comes when it is ready, or not at all
                log.seek(0)
                raise GovernError(f"Bob's process did not start: {log.read().strip()}")
            yield process.pid
        finally:
            process.terminate()
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _together(folders: dict[str, Folder], agreement: Agreement, train: Data, test: Data, story: Story) -> None:
    """Train, be refused, train on, and ask."""
    from modelkeep.govern import ConsentState, Leader, Party, evaluate, infer

    with Party(folders["alice"], data=[train]) as alice:
        total = alice.pieces.total
        story.scene("They train, and Bob withdraws his consent in the middle")
        state = ConsentState(folders["bob"].consent)
        try:
            with _after(alice, total // 2, lambda: state.withdraw(REASON)):
                refused = _refusal(lambda: _train(alice))
            done = alice.pieces.step
            story.tell(
                f"After {done} of {total} updates Alice is told: {refused}", withdrawn_after=done, reason=refused
            )
            refused = _refusal(lambda: _train(alice))
            story.tell(f"She tries to train once more: {refused}")
            refused = _refusal(lambda: infer(Leader(alice), test.x[:8]))
            story.tell(f"She tries to predict: {refused}")
            story.scene("Bob gives his consent back")
            state.restore()
        finally:
            state.close()
        trained = _train(alice)
        story.tell(
            f"They go on where they were: {trained.updates} of {trained.total} updates, the loss is now "
            f"{trained.losses[-1][1]:.3f}. Alice sent {trained.sent / 1e6:.0f} MB of activations and got "
            f"{trained.received / 1e6:.0f} MB of gradients; no label and no weight crossed.",
            updates=trained.updates,
            sent=trained.sent,
            received=trained.received,
        )
        found = evaluate(Leader(alice), test)
        story.tell(
            f"Together they read {found.accuracy.value:.1%} of {len(test):,} test pictures right.",
            accuracy=found.accuracy.value,
        )
        state = ConsentState(folders["bob"].consent)
        try:
            cheat(alice, test.x[:8], lambda: state.withdraw(REASON), story)
            state.restore()
        finally:
            state.close()


def _train(party: Party) -> Trained:
    from modelkeep.core import progress
    from modelkeep.govern import Leader, train

    with progress.show():
        return train(Leader(party))


def _refusal(work: Callable[[], object]) -> str:
    """Why it was refused; that it was not is an error of the demo's."""
    from modelkeep.core.errors import ConsentRefused, GovernError

    try:
        work()
    except ConsentRefused as refused:
        return str(refused)
    raise GovernError("Bob has withdrawn his consent, and yet a pass ran. This must not be: please report it.")


@contextmanager
def _after(party: Party, updates: int, act: Callable[[], None]) -> Iterator[None]:
    """Do something as soon as the party has had this number of updates, while the block trains."""
    over = threading.Event()

    def watch() -> None:
        while party.pieces.step < updates and not over.wait(0.005):
            pass
        if not over.is_set():
            act()

    watcher = threading.Thread(target=watch, name="Bob's mind")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
