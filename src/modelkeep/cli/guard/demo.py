"""`modelkeep guard demo`: one model on two real gateways, with and without a guard, and a thief who asks both."""

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
    from modelkeep.extract.extraction import Extraction


def demo(
    queries: Annotated[int, typer.Option(min=100, help="How much the thief asks.")] = 600,
    epsilon: Annotated[float, typer.Option(min=0, max=2, help="How far a guarded answer may lie off, in ℓ1.")] = 1.0,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Serve a small CNN with and without a guard, and steal from both. Takes about a minute; writes no file.

    The thief has no data, only random pictures: it lives from what the confidences tell. The top-1 label never changes,
    so every honest user sees the same labels from both gateways. Labels are also what no such guard can hide: with many
    more queries a thief gets far with them alone, which is what budgets are for.
    """
    import torch

    from modelkeep import Data
    from modelkeep.core import progress
    from modelkeep.extract import Attack, Extract, LabelsOnly, Listed, Naive, PartialBayes, Remote
    from modelkeep.guard.defences.modelguard_s import ModelGuardS
    from modelkeep.zoo import datasets

    guard = ModelGuardS(epsilon)
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    noise = torch.rand(queries, *train.input_shape, generator=torch.Generator().manual_seed(seed))
    pool = Data(noise, torch.zeros(queries, dtype=torch.int64), train.classes)
    stolen: dict[str, Extraction] = {}
    with progress.show(), tempfile.TemporaryDirectory() as folder:
        model = _train(train, seed)
        path = model.save(Path(folder) / "digits.safetensors")
        plan: dict[str, dict[str, Attack]] = {
            "none": {"no guard": Naive()},
            "modelguard-s": {
                "guarded": Naive(),
                "guarded, and it knows how (pBayes)": PartialBayes("answers"),
                "guarded, and it takes labels only": LabelsOnly(),
            },
        }
        for served, thefts in plan.items():
            with (
                _gateway(path, served, epsilon, queries) as (url, key),
                Remote(url, key=key, budget=queries) as target,
            ):
                for title, attack in thefts.items():
                    steal = Extract(
                        pool,
                        Listed(queries),
                        attack,
                        defence=guard if served != "none" else None,
                        clean=model,
                    )
                    stolen[title] = steal(target, test, seed=seed)
    if as_json:
        told = {title: [found.fidelity.value, found.accuracy.value] for title, found in stolen.items()}
        typer.echo(json.dumps({"queries": queries, "epsilon": epsilon, "fidelity and accuracy": told}))
        return
    _show(stolen, queries, epsilon)


def _train(train: Data, seed: int) -> Model:
    import torch

    from modelkeep import Model
    from modelkeep.training import Adam, Recipe, cross_entropy, fit
    from modelkeep.zoo.architectures import small_cnn

    torch.manual_seed(seed)  # the first weights; this process is ours
    model = Model(
        small_cnn(train.input_shape, len(train.classes)),
        input_shape=train.input_shape,
        classes=train.classes,
        architecture="modelkeep.architectures:small_cnn",
        arguments={"input_shape": list(train.input_shape), "classes": len(train.classes)},
    )
    recipe = Recipe(epochs=20, batch_size=64, optimizer=Adam(), learning_rate=2e-3)
    fit(model, train, cross_entropy, recipe, seed=seed)
    return model


@contextmanager
def _gateway(model: Path, defence: str, epsilon: float, queries: int) -> Iterator[tuple[str, str]]:
    """`modelkeep guard serve` in a process of its own: the model's address there, and a thief's key."""
    from modelkeep.core.errors import GuardError
    from modelkeep.guard.gateway.principals import add_key
    from modelkeep.guard.store.sqlite import SqliteStore
    from modelkeep.guard.store.store import Principal

    state = model.parent / f"{defence}.sqlite3"
    store = SqliteStore(state)
    key = add_key(store, Principal("thief", queries, None))
    store.close()
    options = ["--defence", defence, "--port", str(_free_port()), "--store", f"sqlite:///{state}", "--json"]
    if defence != "none":
        options += ["--epsilon", str(epsilon)]
    code = "from modelkeep.cli import main; main()"
    with (model.parent / f"{defence}.log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "guard", "serve", str(model), *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            told = process.stdout.readline()  # comes when it is ready, or not at all
            if not told:
                log.seek(0)
                raise GuardError(f"The gateway of the demo did not start: {log.read().strip()}")
            summary: dict[str, Any] = json.loads(told)
            yield f"{summary['rest']}/v2/models/{summary['model']}", key
        finally:
            process.terminate()
            process.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _show(stolen: dict[str, Extraction], queries: int, epsilon: float) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    first, *rest = stolen.values()
    best = max(found.fidelity.value for found in rest)
    console.print(
        f"\nA CNN that reads {first.target_accuracy.value:.1%} of handwritten digits was served by two gateways on "
        f"this machine, and a thief asked both the same {queries:,} random pictures."
    )
    table = Table(box=SIMPLE)
    table.add_column("the thief")
    table.add_column("copy agrees with the model", justify="right")
    table.add_column("copy is right", justify="right")
    for title, found in stolen.items():
        table.add_row(title, str(found.fidelity), f"{found.accuracy.value:.1%}")
    console.print(table)
    console.print(
        f"Without a guard the copy agrees on [bold]{first.fidelity.value:.1%}[/bold] of the test digits; behind "
        f"ModelGuard-S (ε = {epsilon:g}) on [bold]{rest[0].fidelity.value:.1%}[/bold], and on "
        f"[bold]{best:.1%}[/bold] for the best of the three thieves. Every label stayed the same.\n"
        "Next: `modelkeep guard init`, and serve a model of your own.",
        markup=True,
    )
