"""`modelkeep train-privately`: the same network, trained with differential privacy, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.method_options import Choice, chosen_method, make_method, method_command
from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    ModelSource,
    model_and_data,
    save_beside,
    training_data,
    with_model_options,
)

if TYPE_CHECKING:
    from modelkeep import Model

TrainPrivatelyCommand = method_command(
    "private-training", "dp-sgd", more=[Choice("privacy-audit", ("--audit",))], without=("training", "trainable")
)


@with_model_options
def train_privately(
    context: typer.Context,
    model: ModelSource,
    data: DataSource,
    *,
    options: ModelOptions,
    train: Annotated[str | None, typer.Option(help="The training data; of a built-in set it is known.")] = None,
    method: Annotated[str, typer.Option(help="How to train; with --help, its settings.")] = "dp-sgd",
    audit: Annotated[
        str | None,
        typer.Option(help="Train once more with canaries, and see what they prove about ε: one-run."),
    ] = None,
    public_weights: Annotated[
        bool,
        typer.Option("--public-weights", help="Start from the model's weights: they come from public data."),
    ] = False,
    trainable: Annotated[
        list[str] | None,
        typer.Option(help="With --public-weights: train only this part of the network; repeat it for more."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Where to save the private model; else private.safetensors in --out.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the pictures, private.html and private.json.")] = Path(
        "modelkeep-out"
    ),
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same figures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print private.json instead of the summary.")] = False,
) -> None:
    """Train a model's network anew with differential privacy: what is guaranteed, and what it costs.

    It starts from fresh weights: those of the model know its training data. Without --seed a secret one is drawn. After
    Ctrl-C the same command goes on. The file of the private model says its ε and δ. Examples:

    * `modelkeep train-privately model.safetensors --data test.csv --train train.csv --epsilon 4`

    * `modelkeep train-privately model.safetensors --data mnist --epsilon 2 --batch-size 2048 --audit one-run`

    * `modelkeep train-privately public.safetensors --data mnist --public-weights --trainable head --epsilon 1`
    """
    from dataclasses import replace

    from rich.console import Console

    from modelkeep.cli.checks import check_out
    from modelkeep.cli.output import show_files
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError
    from modelkeep.report import private_training_page
    from modelkeep.training import evaluate

    if save is not None and save.suffix != ".safetensors":
        raise InputError(f"A model is saved as a '.safetensors' file. Got --save {save}.")
    if trainable and not public_weights:
        raise InputError("--trainable keeps the other parts as they are: say that they are public, --public-weights.")
    check_out(out)
    training = replace(make_method(context), trainable=tuple(trainable or ()))
    auditing = make_method(context, "privacy-audit", training=training) if _audits(context) else None
    loaded, examined = model_and_data(model, data, options, train)
    loaded.require_fit(examined)
    learned = training_data(model, data, train, options, examined, "Private training needs")
    checkpoint = out / "private.checkpoint"
    chosen = seed if seed is not None else _secret_seed(checkpoint)
    _, before = evaluate(loaded, examined)
    start = _start(loaded, public_weights, chosen)
    with progress.show():
        audited = auditing(start, learned, seed=chosen) if auditing is not None else None
        found = training(start, learned, seed=chosen, held_out=examined, checkpoint=checkpoint)
    page = private_training_page(
        found, before=before, audit=audited, model_name=Path(model).name, data_name=learned.name
    )
    others = {"audit.json": audited.to_json()} if audited is not None else {}
    written = page.write(out, "private.html", "private.json", others)
    saved = start.save(save if save is not None else out / "private.safetensors")
    save_beside(saved, learned)
    checkpoint.unlink(missing_ok=True)
    if as_json:
        typer.echo(found.to_json())
        return
    console = Console()
    show_files(console, written)
    console.print(f"The private model: [bold]{saved.resolve()}[/bold]", soft_wrap=True)
    console.print(page.verdict, highlight=False, markup=False)
    for each in (found, audited):
        if each is not None:
            console.print(each)


def _audits(context: typer.Context) -> bool:
    return chosen_method(context, "privacy-audit") is not None


def _start(model: Model, public: bool, seed: int) -> Model:
    """The network to train: as it is where its weights are public, else with weights that are drawn anew."""
    from modelkeep.training.batches import derive_seed
    from modelkeep.training.fresh_network import copy_untrained

    return model if public else copy_untrained(model, derive_seed(seed, "fresh"))


def _secret_seed(checkpoint: Path) -> int:
    """The seed of the run that the checkpoint belongs to, or a new one that no one can guess."""
    import secrets

    from modelkeep.training import checkpoint as checkpoints
    from modelkeep.training.checkpoint import Snapshot

    payload = checkpoints.read(checkpoint)
    if payload is None:
        return secrets.randbits(63)
    return int(Snapshot.from_bytes(payload, f"The checkpoint {checkpoint}").identity["seed"])
