"""`modelkeep govern serve`, `train`, `evaluate` and `infer`: one party's process, which takes part or leads."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.checks import check_out_file
from modelkeep.cli.govern.consent import FolderPath
from modelkeep.cli.govern.identity import Json
from modelkeep.cli.govern.view import watching
from modelkeep.cli.model_options import DataSource, Device, Label
from modelkeep.core.errors import FolderInUse

if TYPE_CHECKING:
    from modelkeep.core.results import Result
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.session.party import Party
    from modelkeep.govern.session.requests import Outcome, Request
    from modelkeep.zoo.datasets.dataset import Part

Patience = Annotated[
    float,
    typer.Option(min=0, help="Seconds to wait for a party that is away, a person who must approve, or a turn to lead."),
]
_LOOK_UP = 0.5  # seconds between two looks at whether a folder is free


def serve(
    folder: FolderPath = Path(),
    *,
    data: Annotated[
        list[str] | None, typer.Option(help="Data that it has the labels of, as for train; may come several times.")
    ] = None,
    label: Label = "label",
    device: Device = "cpu",
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of the live view.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON when it is ready; else plain.")
    ] = False,
) -> None:
    """Take part in the passes that others lead, until Ctrl-C or SIGTERM; shows what happens while it happens.

    Every pass is checked against your policy, and logged. Nothing is lost whenever it ends, and by whatever means.
    """
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.session.control import ControlSocket
    from modelkeep.govern.session.requests import open_data
    from modelkeep.govern.session.service import serve as take_part

    _wait_for_signatures(Folder(folder))
    with (
        _stopped_by_signals() as stop,
        open_party(folder, device) as party,
        ControlSocket(Folder(folder).control) as control,
    ):
        for source in data or []:
            for part in _parts(source):
                party.materials.add(open_data(source, party, label, part))
        if as_json:
            typer.echo(json.dumps({"party": party.name, "address": party.links.address}))
        else:
            typer.echo(f"'{party.name}' serves at {party.links.address}. Ctrl-C ends it; nothing is lost.")
        sys.stdout.flush()
        with watching(party, plain=plain or as_json):
            take_part(party, stop, control)


def train(
    folder: FolderPath = Path(),
    *,
    data: DataSource,
    updates: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number in all; the next call goes on.")
    ] = None,
    label: Label = "label",
    device: Device = "cpu",
    patience: Patience = 600.0,
    as_json: Json = False,
) -> None:
    """Train as agreed, as the party that has the data; goes on where it was. Ctrl-C ends it after a pass.

    Where `govern serve` runs in the folder, that process leads; its device counts.
    """
    from modelkeep.govern.session.requests import Request, name_data

    request = Request(verb="train", data=name_data(data), label=label, updates=updates, patience=patience)
    _show(_perform(folder, request, device).result, as_json)


def evaluate(
    folder: FolderPath = Path(),
    *,
    data: DataSource,
    labels_at: Annotated[str | None, typer.Option(help="The party that has the labels; this one by default.")] = None,
    label: Label = "label",
    device: Device = "cpu",
    patience: Patience = 600.0,
    as_json: Json = False,
) -> None:
    """Measure the accuracy, of a built-in set on its test part.

    Where `govern serve` runs in the folder, that process leads; its device counts.
    """
    from modelkeep.govern.session.requests import Request, name_data

    request = Request(verb="evaluate", data=name_data(data), label=label, labels_at=labels_at, patience=patience)
    _show(_perform(folder, request, device).result, as_json)


def infer(
    folder: FolderPath = Path(),
    *,
    data: DataSource,
    out: Annotated[Path, typer.Option(help="The file for logits, answers and classes.")] = Path("answers.npz"),
    label: Label = "label",
    device: Device = "cpu",
    patience: Patience = 600.0,
    as_json: Json = False,
) -> None:
    """Ask the model about your inputs; the answers come to you alone.

    Where `govern serve` runs in the folder, that process leads; its device counts.
    """
    import numpy as np

    from modelkeep.core.errors import InputError
    from modelkeep.core.files import replace_file
    from modelkeep.govern.session.requests import Request, name_data

    check_out_file(out)
    outcome = _perform(folder, Request(verb="infer", data=name_data(data), label=label, patience=patience), device)
    assert outcome.logits is not None
    answers = outcome.logits.argmax(dim=1)
    try:
        with replace_file(out) as unfinished, unfinished.open("wb") as file:
            np.savez(file, logits=outcome.logits.numpy(), answers=answers.numpy(), classes=np.array(outcome.classes))
    except OSError as error:
        raise InputError(f"'{out}' cannot be written: {error.strerror}.") from error
    counts = {name: int((answers == index).sum()) for index, name in enumerate(outcome.classes)}
    if as_json:
        typer.echo(json.dumps({"inputs": len(answers), "answers": counts, "out": str(out)}))
        return
    typer.echo(f"{len(answers):,} answers: " + ", ".join(f"{name}: {count:,}" for name, count in counts.items()))
    typer.echo(f"They are in {out}.")


def _perform(folder: Path, request: Request, device: str) -> Outcome:
    """Let the process that serves in the folder do it; where none serves, do it here."""
    from modelkeep.core import progress
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.session.handover import hand_over
    from modelkeep.govern.session.leader import Leader
    from modelkeep.govern.session.requests import perform

    tell, until = make_teller(), time.monotonic() + request.patience
    with progress.show():
        while True:
            outcome = hand_over(Folder(folder).control, request, tell)
            if outcome is not None:
                return outcome
            try:
                with open_party(folder, device) as party:
                    return perform(Leader(party, patience=request.patience, tell=tell), request)
            except FolderInUse as error:  # by a command that leads; or by one that will serve in a moment
                if time.monotonic() > until:
                    raise
                tell(str(error))
                time.sleep(_LOOK_UP)


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C or SIGTERM; a second one is not held back."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    try:
        for number in before:
            signal.signal(number, end)
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_for_signatures(folder: Folder) -> None:
    """Exchange signatures with the other parties, where some are missing and the parties are known."""
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.session.exchange import Exchange, know_parties, missing_signatures

    if not folder.agreement.exists() or not folder.parties.exists():
        return
    if missing := missing_signatures(Agreement.read(folder.agreement)):
        typer.echo(f"waiting: not signed yet by {', '.join(missing)}", err=True)
        Exchange(folder, folder.identity(), know_parties(folder, []), typer.echo).run(None, float("inf"))


def open_party(folder: Path, device: str) -> Party:
    """The party of the folder, ready to listen and to speak."""
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.session.memory import keep_freed_memory
    from modelkeep.govern.session.party import Party

    # Last: a file in this folder must not pass for a library. All parties have signed which factory is called.
    sys.path.append(str(Path.cwd()))
    keep_freed_memory()
    return Party(Folder(folder), device=device)


def _parts(source: str) -> tuple[Part, ...]:
    """A built-in set has two parts that may be asked for; a file is one."""
    return ("train",) if Path(source).expanduser().exists() else ("train", "test")


def make_teller() -> Callable[[str], None]:
    """Says what a command waits for, each thing once."""
    said = set[str]()

    def tell(text: str) -> None:
        if text not in said:
            said.add(text)
            typer.secho(f"waiting: {text}", fg="yellow", err=True)

    return tell


def _show(found: Result | None, as_json: bool) -> None:
    assert found is not None
    if as_json:
        typer.echo(found.to_json())
        return
    from rich.console import Console

    Console().print(found)
