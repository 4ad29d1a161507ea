"""`modelkeep govern serve`, `train`, `evaluate` and `infer`: one party's process, which takes part or leads."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
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

if TYPE_CHECKING:
    from modelkeep import Data
    from modelkeep.core.results import Result
    from modelkeep.govern.session.leader import Leader
    from modelkeep.govern.session.party import Party
    from modelkeep.zoo.datasets.dataset import Part

_Patience = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for a party that is away, or for a person who has to approve.")
]


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
    from modelkeep.govern.session.member import serve as take_part

    with _stopped_by_signals() as stop, _party(folder, device) as party:
        for source in data or []:
            for part in _parts(source):
                party.materials.add(_opened(source, party, label, part))
        if as_json:
            typer.echo(json.dumps({"party": party.name, "address": party.links.address}))
        else:
            typer.echo(f"'{party.name}' serves at {party.links.address}. Ctrl-C ends it; nothing is lost.")
        sys.stdout.flush()
        with watching(party, plain=plain or as_json):
            take_part(party, stop)


def train(
    folder: FolderPath = Path(),
    *,
    data: DataSource,
    updates: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number in all; the next call goes on.")
    ] = None,
    label: Label = "label",
    device: Device = "cpu",
    patience: _Patience = 600.0,
    as_json: Json = False,
) -> None:
    """Train as agreed, as the party that has the data; goes on where it was. Ctrl-C ends it after a pass."""
    from modelkeep.core import progress
    from modelkeep.govern.session.runs import train as together

    with _party(folder, device) as party, progress.show():
        party.materials.add(_opened(data, party, label, "train"))
        found = together(_leader(party, patience), updates=updates)
    _show(found, as_json)


def evaluate(
    folder: FolderPath = Path(),
    *,
    data: DataSource,
    labels_at: Annotated[str | None, typer.Option(help="The party that has the labels; this one by default.")] = None,
    label: Label = "label",
    device: Device = "cpu",
    patience: _Patience = 600.0,
    as_json: Json = False,
) -> None:
    """Measure the accuracy, of a built-in set on its test part."""
    from modelkeep.govern.session.runs import evaluate as judge

    with _party(folder, device) as party:
        examined = _opened(data, party, label, "test")
        found = judge(_leader(party, patience), examined, labels_at=labels_at)
    _show(found, as_json)


def infer(
    folder: FolderPath = Path(),
    *,
    data: DataSource,
    out: Annotated[Path, typer.Option(help="The file for logits, answers and classes.")] = Path("answers.npz"),
    label: Label = "label",
    device: Device = "cpu",
    patience: _Patience = 600.0,
    as_json: Json = False,
) -> None:
    """Ask the model about your inputs; the answers come to you alone."""
    import numpy as np

    from modelkeep.core.errors import InputError
    from modelkeep.core.files import replace_file
    from modelkeep.govern.session.runs import infer as ask

    check_out_file(out)
    with _party(folder, device) as party:
        x = _opened(data, party, label, "test").x
        logits, classes = ask(_leader(party, patience), x), party.pieces.classes
    answers = logits.argmax(dim=1)
    try:
        with replace_file(out) as unfinished, unfinished.open("wb") as file:
            np.savez(file, logits=logits.numpy(), answers=answers.numpy(), classes=np.array(classes))
    except OSError as error:
        raise InputError(f"'{out}' cannot be written: {error.strerror}.") from error
    counts = {name: int((answers == index).sum()) for index, name in enumerate(classes)}
    if as_json:
        typer.echo(json.dumps({"inputs": len(x), "answers": counts, "out": str(out)}))
        return
    typer.echo(f"{len(x):,} answers: " + ", ".join(f"{name}: {count:,}" for name, count in counts.items()))
    typer.echo(f"They are in {out}.")


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


def _party(folder: Path, device: str) -> Party:
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


def _opened(source: str, party: Party, label: str, part: Part) -> Data:
    from modelkeep.zoo import datasets

    return datasets.open(source, label=label, part=part, shape=party.agreement.card.input_shape)


def _leader(party: Party, patience: float) -> Leader:
    from modelkeep.govern.session.leader import Leader

    said = set[str]()

    def tell(text: str) -> None:
        if text not in said:
            said.add(text)
            typer.secho(f"waiting: {text}", fg="yellow", err=True)

    return Leader(party, patience=patience, tell=tell)


def _show(found: Result, as_json: bool) -> None:
    if as_json:
        typer.echo(found.to_json())
        return
    from rich.console import Console

    Console().print(found)
