"""`modelkeep privacy`: who can be found in the training data, and how surely?"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from modelkeep.cli.model_options import ModelOptions, ModelSource, Seed, model_and_data, read_like, with_model_options

if TYPE_CHECKING:
    from modelkeep import Data, Model
    from modelkeep.privacy import MembershipAttack
    from modelkeep.training import Recipe

_RECIPE = "How the model was trained"
QUICK = ("naive", "loss", "modified-entropy", "noise", "quantile")
"""The attacks that need no network like the target."""
WITH_SHADOWS = ("rmia", "lira", "bayesian-wb")


@with_model_options
def privacy(
    context: typer.Context,
    model: ModelSource,
    *,
    options: ModelOptions,
    members: Annotated[
        str,
        typer.Option(help="The training data; with --data, a text file with a row number or hash per line."),
    ],
    non_members: Annotated[
        str | None, typer.Option(help="Records that the model has not seen; with --data, by default all others.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Data of members and others, of which --members names some.")] = None,
    hold_out: Annotated[
        str | None, typer.Option(help="The attacker's own records; by default half of the non-members.")
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(min=1, help="How many examples: as many members, and as many non-members; else all."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="One attack of `modelkeep methods membership`; by default several.")
    ] = None,
    record: Annotated[str | None, typer.Option(help="Is this member exposed? Its row number, or its hash.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="For attacks that train networks like the model.", rich_help_panel=_RECIPE)
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Examples per update.", rich_help_panel=_RECIPE)] = 128,
    learning_rate: Annotated[float, typer.Option(help="The step size.", rich_help_panel=_RECIPE)] = 1e-3,
    optimizer: Annotated[
        Literal["adam", "sgd"], typer.Option(help="SGD has Nesterov momentum 0.9.", rich_help_panel=_RECIPE)
    ] = "adam",
    weight_decay: Annotated[float, typer.Option(help="ℓ2 regularisation.", rich_help_panel=_RECIPE)] = 0.0,
    out: Annotated[Path, typer.Option(help="The folder for the pictures, privacy.html and privacy.json.")] = Path(
        "modelkeep-out"
    ),
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print privacy.json instead of the summary.")] = False,
) -> None:
    """Attack the privacy of a model: who was in its training data, how surely that is found, and what to do.

    Of a built-in set, members are its training part and non-members its test part. With --epochs and the other settings
    of the training, attacks that train networks like the model are run, too. They find more. Examples:

    * `modelkeep privacy model.safetensors --members train.csv --non-members test.csv`

    * `modelkeep privacy model.safetensors --members train.csv --non-members test.csv --epochs 100`

    * `modelkeep privacy model.safetensors --data patients.csv --members ids.txt --record 17`
    """
    from rich.console import Console

    from modelkeep.cli.checks import check_out
    from modelkeep.cli.method_options import make_method
    from modelkeep.cli.output import show_files
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError
    from modelkeep.core.registry import find
    from modelkeep.privacy import Knowledge
    from modelkeep.privacy.records import find_records
    from modelkeep.report import measure_privacy, privacy_page

    check_out(out)
    if data is not None:
        loaded, everything = model_and_data(model, data, options)
        loaded.require_fit(everything)  # classes in another order change every hash
        rows, others = _parts(everything, members, non_members)
        inside = everything.take(rows)
    else:
        loaded, inside, others = _separate(model, members, non_members, options)
        everything, rows = inside, list(range(len(inside)))
    if examples is not None and record is not None:
        raise InputError("--examples draws some of the members, so that --record may be none of them. Leave one out.")
    if examples is not None:
        rows = sorted(Random(seed).sample(rows, min(examples, len(rows))))
        inside, others = everything.take(rows), others.sample(min(examples, len(others)), seed)
    if hold_out is not None:
        known = read_like(others, hold_out, options.description(model), part="test")
    else:
        others, known = others.split(0.5, 0.5, seed=seed)
    recipe = _recipe(epochs, batch_size, learning_rate, optimizer, weight_decay)
    attacks: list[MembershipAttack]
    if method is not None:
        attacks = [make_method(context)]
    else:
        names = QUICK + (WITH_SHADOWS if recipe is not None else ())
        if inside.tokenizer is not None:
            typer.echo("Not done: noise, which adds noise to numbers, and a text is made of token ids.", err=True)
            names = tuple(name for name in names if name != "noise")
        attacks = [find("membership", name).load()() for name in names]
    asked = find_records(everything, [record]).tolist() if record is not None else []
    with progress.show():
        found = measure_privacy(
            loaded,
            inside,
            others,
            Knowledge(known, recipe),
            attacks,
            records=[_place(rows, row) for row in asked],
            name=Path(model).name,
            seed=seed,
        )
    found = found.numbered(rows)  # as the user numbers them: by the rows of his file
    written = privacy_page(found, everything).write(out, "privacy.html", "privacy.json")
    if as_json:
        typer.echo(found.to_json())
        return
    console = Console()
    show_files(console, written)
    console.print(found.verdict, highlight=False)
    for each in found.asked:
        console.print(each.tell(), highlight=False)
    console.print(found)


def _separate(model: str, members: str, non_members: str | None, options: ModelOptions) -> tuple[Model, Data, Data]:
    from modelkeep.core.errors import InputError

    if non_members is None:
        raise InputError("Name records that the model has not seen: --non-members DATA. (Or all records, with --data.)")
    loaded, others = model_and_data(model, non_members, options)
    return loaded, read_like(others, members, options.description(model), part="train"), others


def _parts(everything: Data, members: str, non_members: str | None) -> tuple[list[int], Data]:
    """The rows of the members that a file names, and the records that the other file names, or all others."""
    import torch

    from modelkeep.privacy.records import find_records

    inside = find_records(everything, _lines(members))
    if non_members is not None:
        return inside.tolist(), everything.take(find_records(everything, _lines(non_members)))
    others = torch.ones(len(everything), dtype=torch.bool).index_fill_(0, inside, False)
    return inside.tolist(), everything.take(torch.nonzero(others).flatten())


def _place(members: list[int], row: int) -> int:
    """The place of a row among the members."""
    from modelkeep.core.errors import InputError

    if row not in members:
        raise InputError(f"Row {row} is no member, so that nothing can be said of it: --record names one of --members.")
    return members.index(row)


def _lines(path: str) -> list[str]:
    from modelkeep.core.errors import InputError

    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(
            f"With --data, records are named by a text file with a row number or hash per line. Got '{path}'."
        )
    return [line for line in file.read_text(encoding="utf-8").split() if line]


def _recipe(
    epochs: int | None, batch_size: int, learning_rate: float, optimizer: str, weight_decay: float
) -> Recipe | None:
    from modelkeep.training import SGD, Adam, Recipe

    if epochs is None:
        return None
    chosen = Adam(weight_decay=weight_decay)
    if optimizer == "sgd":
        steps = SGD(momentum=0.9, nesterov=True, weight_decay=weight_decay)
        return Recipe(epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, optimizer=steps)
    return Recipe(epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, optimizer=chosen)
