"""`modelkeep encrypt demo`: a clinic asks a model about tumours, and the server's log shows what it saw: nothing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelkeep.cli.model_options import Seed

if TYPE_CHECKING:
    from modelkeep import Data, Model
    from modelkeep.encrypt.ckks.client import Answers

HIDDEN = 16


def demo(
    questions: Annotated[int, typer.Option(min=1, max=114, help="How many records the clinic asks about.")] = 5,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """A clinic asks about breast-cancer records. Takes about half a minute; writes no file.

    A network is trained on 455 records of the Wisconsin set and served by a process of its own. The clinic encrypts
    records that the network has not seen; the server computes on the ciphertexts, and its log is printed here in full.
    """
    from modelkeep.core import progress
    from modelkeep.encrypt.ckks.client import Client
    from modelkeep.zoo import datasets

    train, test = datasets.load("breast-cancer", "train"), datasets.load("breast-cancer", "test")
    with progress.show(), tempfile.TemporaryDirectory() as folder:
        model = train_network(train, seed)
        with _server(model, Path(folder)) as (told, log), Client(told["url"], model=told["model"]) as client:
            answers = client.ask(test.x[:questions])
            seen = log.read_text(encoding="utf-8").splitlines()
    exact = model.logits(test.x[:questions]).double()
    error = float((answers.logits - exact).abs().max())
    if as_json:
        labels = [answers.classes[label] for label in answers.labels.tolist()]
        summary = {"answers": labels, "largest_error": error, "server_saw": seen, "sent_bytes": answers.sent_bytes}
        typer.echo(json.dumps(summary))
        return
    _show(answers, test, error, seen, model)


def train_network(train: Data, seed: int) -> Model:
    """30-16-2 with a trained quadratic; records are standardised inside the model."""
    import torch
    from torch import nn

    from modelkeep import Model
    from modelkeep.core.card import Preprocessing
    from modelkeep.encrypt.polynomial import Polynomial
    from modelkeep.training import Recipe, cross_entropy, fit

    torch.manual_seed(seed)  # the first weights; this process is ours
    mean, std = train.x.mean(dim=0), train.x.std(dim=0)
    model = Model(
        nn.Sequential(nn.Linear(30, HIDDEN), Polynomial(), nn.Linear(HIDDEN, 2)).eval(),
        input_shape=train.input_shape,
        classes=train.classes,
        preprocessing=Preprocessing(mean=tuple(mean.tolist()), std=tuple(std.tolist())),
        bounds=None,
    )
    fit(model, train, cross_entropy, Recipe(epochs=30, batch_size=32, learning_rate=3e-3), seed=seed)
    return model


@contextmanager
def _server(model: Model, folder: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """`modelkeep encrypt serve` in a process of its own: what it says when it is ready, and its log."""
    from modelkeep.cli.convert import describe_model
    from modelkeep.core.conversion import write_pt2
    from modelkeep.core.errors import EncryptError
    from modelkeep.core.model_file import Description

    path = write_pt2(model, folder / "clinic.pt2")
    describe_model(model, Description()).write(path.with_suffix(".toml"))
    code = "from modelkeep.cli import main; main()"
    options = ["--data", "breast-cancer", "--port", str(_free_port()), "--json"]
    log = folder / "server.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "encrypt", "serve", str(path), *options],
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
        )
        try:
            assert process.stdout is not None
            told = process.stdout.readline()  # comes when it is ready, or not at all
            if not told:
                raise EncryptError(f"The server of the demo did not start: {log.read_text().strip()}")
            yield json.loads(told), log
        finally:
            process.terminate()
            process.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _show(answers: Answers, test: Data, error: float, seen: list[str], model: Model) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    plain = model.predict(test.x[: len(answers.labels)]).tolist()
    table = Table(box=SIMPLE)
    for title in ("record", "answer to the clinic", "the model in the clear", "diagnosis"):
        table.add_column(title)
    for i, (label, clear) in enumerate(zip(answers.labels.tolist(), plain, strict=True)):
        diagnosis = test.classes[int(test.y[i])]
        table.add_row(str(i), answers.classes[label], answers.classes[clear], diagnosis)
    console.print("\nA clinic asked about records of tumours, encrypted under a key that only the clinic has:")
    console.print(table)
    console.print(f"The decrypted logits differ from those in the clear by at most [bold]{error:.1e}[/bold].")
    console.print(f"\nThe server's log, in full ({len(seen)} lines):", style="bold")
    for line in seen:
        console.print(f"  {line}", soft_wrap=True)
    console.print(
        "\nIt saw how much came and when: no record, no answer, and no secret key.\n"
        "Next: `modelkeep encrypt plan MODEL --data DATA` with a model of your own."
    )
