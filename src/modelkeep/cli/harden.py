"""`modelkeep harden`: train a model so that attacks find less, or see which of all defences hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from modelkeep.cli.method_options import chosen_method, list_methods, make_method, method_command
from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    ModelSource,
    Seed,
    model_and_data,
    save_beside,
    training_data,
    with_model_options,
)
from modelkeep.cli.radius import Radius, radius_option

HardenCommand = method_command("hardening", "pgd")


@with_model_options
def harden(
    context: typer.Context,
    model: ModelSource = "",
    data: DataSource = "",
    *,
    options: ModelOptions,
    radius: Annotated[Radius | None, radius_option()] = None,
    method: Annotated[str, typer.Option(help="How to train. --list shows all; with --help, its settings.")] = "pgd",
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Make every defence, and see which hold against an attack that knows them."),
    ] = False,
    defence: Annotated[
        list[str] | None, typer.Option(help="With --compare: only this defence; repeat it for more.")
    ] = None,
    norm: Annotated[Literal["linf", "l2", "l1"], typer.Option(help="How a change is measured.")] = "linf",
    epochs: Annotated[int, typer.Option(min=1, help="How often the training data is seen.")] = 10,
    learning_rate: Annotated[float, typer.Option(min=0, help="Of Adam.")] = 1e-3,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples per update.")] = 128,
    train: Annotated[str | None, typer.Option(help="The training data; of a built-in set it is known.")] = None,
    attack: Annotated[
        Literal["standard", "pgd"], typer.Option(help="What measures: the standard ensemble, or PGD, which is quicker.")
    ] = "standard",
    examples: Annotated[
        int, typer.Option(min=1, help="How many examples of --data are attacked, drawn by the seed.")
    ] = 500,
    save: Annotated[
        Path | None, typer.Option(help="Where to save the hardened model; else hardened.safetensors in --out.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the pictures, harden.html and harden.json.")] = Path(
        "modelkeep-out"
    ),
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print harden.json instead of the summary.")] = False,
    show_list: Annotated[
        bool, typer.Option("--list", help="Print all methods and defences, and do nothing else.")
    ] = False,
) -> None:
    """Harden a model: train it against attacks, and report clean accuracy, attacked accuracy and cost.

    Give data that the model was not trained on (of a built-in set, its test part is taken). After Ctrl-C the same
    command goes on. Examples:

    * `modelkeep harden model.safetensors --data digits --radius 0.1`

    * `modelkeep harden model.safetensors --data digits --radius 0.1 --method free --save hard.safetensors`

    * `modelkeep harden model.safetensors --data test.npz --train train.npz --norm l2 --radius 0.5 --method trades`

    * `modelkeep harden model.safetensors --data digits --radius 0.1 --compare` (which defences hold?)

    * `modelkeep harden --method trades --help` (the settings of TRADES)

    * `modelkeep harden --list`
    """
    from rich.console import Console

    from modelkeep.attack import PGD, Standard
    from modelkeep.cli.checks import check_out
    from modelkeep.cli.output import show_files
    from modelkeep.cli.study import print_table
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError
    from modelkeep.core.method import options_of
    from modelkeep.harden import Setting, make_defences, scoreboard
    from modelkeep.harden import harden as hardened
    from modelkeep.report import hardening_page
    from modelkeep.training import Adam, Recipe

    if show_list:
        rows = [[family, *row] for family in ("hardening", "defence") for row in list_methods(family)]
        print_table([[row[0], row[1], *row[3:]] for row in rows], ["family", "name", "what it does", "paper"])
        return
    if not model or not data or radius is None:
        raise InputError("Name the model, the data and the radius: modelkeep harden MODEL --data DATA --radius 0.1.")
    if save is not None and save.suffix != ".safetensors":
        raise InputError(f"A model is saved as a '.safetensors' file. Got --save {save}.")
    if defence and not compare:
        raise InputError("--defence belongs to --compare: it names the defences to compare.")
    check_out(out)
    loaded, examined = model_and_data(model, data, options, train)
    loaded.require_fit(examined)
    size = radius.of(examined)
    examined = examined.sample(min(examples, len(examined)), seed)
    learned = training_data(model, data, train, options, examined, "Hardening needs")
    recipe = Recipe(epochs=epochs, batch_size=batch_size, optimizer=Adam(), learning_rate=learning_rate)
    measure = (Standard if attack == "standard" else PGD)(norm=norm, radius=size)
    known = {each.name for each in options_of(chosen_method(context))}
    bound: dict[str, Any] = {"norm": norm, "radius": size} if "radius" in known else {}  # some need neither
    chosen = make_method(context, **bound)
    checkpoint = out / "harden.checkpoint"
    found: Any
    with progress.show():
        if compare:
            defences = make_defences(loaded, Setting(learned, recipe, norm, size, seed), defence or None)
            found = scoreboard(loaded, defences, examined, attack=measure, seed=seed)
        else:
            found = hardened(
                loaded,
                learned,
                chosen,
                recipe,
                held_out=examined,
                attack=measure,
                seed=seed,
                checkpoint=checkpoint,
            )
    page = hardening_page(found, model_name=Path(model).name, data_name=examined.name)
    written = page.write(out, "harden.html", "harden.json")
    saved = None if compare else loaded.save(save if save is not None else out / "hardened.safetensors")
    if saved is not None:
        save_beside(saved, examined)
    for left in (checkpoint, checkpoint.with_suffix(".teacher")):
        left.unlink(missing_ok=True)
    if as_json:
        typer.echo(found.to_json())
        return
    console = Console()
    show_files(console, written)
    if saved is not None:
        console.print(f"The hardened model: [bold]{saved.resolve()}[/bold]", soft_wrap=True)
    console.print(page.verdict, highlight=False, markup=False)
    console.print(found)
