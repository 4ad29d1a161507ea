"""`modelkeep attack`: look for inputs that look the same and are answered differently."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from modelkeep.cli.model_options import (
    DataSource,
    Device,
    InputShape,
    Label,
    ModelSource,
    Seed,
    Weights,
    in_classes_of,
    model_and_data,
)

if TYPE_CHECKING:
    from modelkeep import Data, Model
    from modelkeep.attack import Attacked
    from modelkeep.attack.catalogue import Entry
    from modelkeep.attack.curve import RobustnessCurve

NormName = Literal["linf", "l2", "l1", "l0"]


def attack(
    model: ModelSource = "",
    data: DataSource = "",
    attack: Annotated[str, typer.Option(help="Which attack; --list shows them all.")] = "standard",
    norm: Annotated[NormName | None, typer.Option(help="How a change is measured; default: the attack's own.")] = None,
    eps: Annotated[
        float | None, typer.Option(help="The largest change, in the data's units; some attacks look for the smallest.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The class that the answer should become.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of the attack; default: the attack's own.")] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="Queries per example, for attacks without weights.")
    ] = None,
    curve: Annotated[
        bool, typer.Option(help="Also measure the accuracy at smaller sizes of the change, and draw the curve.")
    ] = True,
    examples: Annotated[int, typer.Option(min=1, help="How many examples to attack, drawn by the seed.")] = 500,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples that are run at once.")] = 256,
    weights: Weights = None,
    input_shape: InputShape = None,
    label: Label = "label",
    out: Annotated[
        Path, typer.Option(help="The folder for attack.html, attack.json, adversarial.npz, pictures.")
    ] = Path("modelkeep-out"),
    seed: Seed = 0,
    device: Device = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print attack.json instead of the summary.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="Print all attacks, and do nothing else.")] = False,
) -> None:
    """Attack a model: is there a small change of the input that changes the answer?

    Shows the robust accuracy while it works, and writes a page with pictures (original, change, result and both
    answers), the figures, and the inputs it found. After Ctrl-C the same command goes on. Examples:

    * `modelkeep attack model.safetensors --data digits --eps 0.1`

    * `modelkeep attack model.safetensors --data digits --norm l2 --eps 0.5 --attack standard`

    * `modelkeep attack model.safetensors --data digits --attack cw` (the smallest change)

    * `modelkeep attack model.safetensors --data digits --attack pgd --eps 0.2 --target 3`

    * `modelkeep attack --list`
    """
    from rich.console import Console

    from modelkeep import report as pages
    from modelkeep.attack import catalogue
    from modelkeep.attack.keeper import kept
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError

    if show_list:
        _list()
        return
    if not model or not data:
        raise InputError("Name the model and the data: modelkeep attack MODEL --data DATA. --list shows all attacks.")
    loaded, examined = model_and_data(model, data, weights=weights, input_shape=input_shape, label=label, device=device)
    examined, _ = in_classes_of(loaded, examined.sample(min(examples, len(examined)), seed))
    settings = {"norm": norm, "target": target, "steps": steps, "queries": queries, "batch_size": batch_size}
    run = catalogue.prepared(attack, settings, radius=eps)
    unfinished = out / ".attacks"
    try:
        with progress.show(), kept(unfinished):
            found = run(loaded, examined, seed=seed)
            drawn = _curve(found, run, loaded, examined, seed) if curve else None
    except KeyboardInterrupt:
        typer.echo(f"Stopped. What was found is kept in {unfinished}; the same command goes on with it.", err=True)
        raise typer.Exit(130) from None
    report, (page, record, *others) = pages.write_attack(
        found, drawn, model_name=Path(model).name, data_name=examined.name, folder=out
    )
    shutil.rmtree(unfinished, ignore_errors=True)
    if as_json:
        typer.echo(record.read_text(encoding="utf-8"))
        return
    console = Console()
    console.print(f"\nThe page: [bold]{page.resolve()}[/bold]  (for machines: {record.resolve()})", soft_wrap=True)
    for other in others:
        console.print(f"  {other.resolve()}", soft_wrap=True)
    console.print(report.verdict, highlight=False, markup=False)
    console.print(report)


def _curve(found: Attacked, run: partial[Attacked], model: Model, data: Data, seed: int) -> RobustnessCurve | None:
    """The accuracy at sizes up to the one that was asked for, or up to the largest that was needed.

    What was done already is in the folder of unfinished attacks, and is not done again.
    """
    from modelkeep.attack.curve import robustness_curve

    moved = found.distance[(found.after != found.labels) & (found.distance > 0)]
    if found.target is not None or found.norm == "l0" or len(moved) == 0:
        return None
    if found.radius is None:
        return robustness_curve(model, data, run, [float(moved.max()) * i / 8 for i in range(1, 9)], seed=seed)
    freed = partial(run.func, **{key: value for key, value in run.keywords.items() if key != "radius"})
    return robustness_curve(model, data, freed, [found.radius * i / 4 for i in range(1, 5)], seed=seed)


def _list() -> None:
    from modelkeep.attack.catalogue import ATTACKS
    from modelkeep.cli.study import print_table

    rows = [[name, entry.sees, " ".join(entry.norms), _change(entry), entry.does] for name, entry in ATTACKS.items()]
    print_table(rows, ["attack", "sees", "norms", "change", "what it does"])


def _change(entry: Entry) -> str:
    if entry.needs_radius:
        return "--eps"
    return "any, or --eps" if "radius" in entry.takes else "smallest"
