"""`modelkeep attack`: look for inputs that look the same and are answered differently."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.ending import ExitCode
from modelkeep.cli.method_options import list_methods, make_method, method_command
from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    ModelSource,
    Seed,
    in_classes_of,
    model_and_data,
    with_model_options,
)

if TYPE_CHECKING:
    from modelkeep import Data, Model, Result
    from modelkeep.attack import Attack, Attacked, RobustnessCurve

AttackCommand = method_command("attack", "standard")


@with_model_options
def attack(
    context: typer.Context,
    model: ModelSource = "",
    data: DataSource = "",
    *,
    options: ModelOptions,
    method: Annotated[
        str, typer.Option(help="Which attack. --list shows all; with --help, its settings.")
    ] = "standard",
    curve: Annotated[
        bool, typer.Option(help="Also measure the accuracy at smaller sizes of the change, and draw the curve.")
    ] = True,
    examples: Annotated[int, typer.Option(min=1, help="How many examples to attack, drawn by the seed.")] = 500,
    out: Annotated[
        Path, typer.Option(help="The folder for attack.html, attack.json, adversarial.npz, pictures.")
    ] = Path("modelkeep-out"),
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print attack.json instead of the summary.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="Print all attacks, and do nothing else.")] = False,
) -> None:
    """Attack a model: is there a small change of the input that changes the answer?

    Shows the robust accuracy while it works, and writes a page with pictures (original, change, result and both
    answers), the figures, and the inputs it found. After Ctrl-C the same command goes on. Examples:

    * `modelkeep attack model.safetensors --data digits --radius 0.1`

    * `modelkeep attack model.safetensors --data digits --norm l2 --radius 0.5 --method standard`

    * `modelkeep attack model.safetensors --data digits --method cw` (the smallest change)

    * `modelkeep attack model.safetensors --data digits --method pgd --radius 0.2 --target 3`

    * `modelkeep attack --method pgd --help` (the settings of PGD)

    * `modelkeep attack --list`
    """
    from rich.console import Console

    from modelkeep.attack import Attacked, resume_from
    from modelkeep.cli.checks import check_out
    from modelkeep.cli.output import show_files
    from modelkeep.cli.study import print_table
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError
    from modelkeep.report import AttackReport

    if show_list:
        print_table(list_methods("attack"), ["attack", "sees", "what it does", "paper"])
        return
    if not model or not data:
        raise InputError("Name the model and the data: modelkeep attack MODEL --data DATA. --list shows all attacks.")
    check_out(out)
    make_method(context)  # refuses a wrong setting before anything is read
    loaded, examined = model_and_data(model, data, options)
    chosen = make_method(context, data=examined)
    examined, _ = in_classes_of(loaded, examined.sample(min(examples, len(examined)), seed))
    unfinished = out / ".attacks"
    try:
        with progress.show(), resume_from(unfinished):
            found = chosen(loaded, examined, seed=seed)
            drawn = _curve(found, chosen, loaded, examined, seed) if curve and isinstance(found, Attacked) else None
    except KeyboardInterrupt:
        typer.echo(f"Stopped. What was found is kept in {unfinished}; the same command goes on with it.", err=True)
        raise typer.Exit(ExitCode.STOPPED) from None
    told, files = _write(found, drawn, Path(model).name, examined.name, out)
    shutil.rmtree(unfinished, ignore_errors=True)
    if as_json:
        typer.echo((out / "attack.json").read_text(encoding="utf-8"))
        return
    console = Console()
    show_files(console, files)
    if isinstance(told, AttackReport):
        console.print(told.verdict, highlight=False, markup=False)
    console.print(told)


def _curve(found: Attacked, chosen: Attack, model: Model, data: Data, seed: int) -> RobustnessCurve | None:
    """The accuracy at sizes up to the one that was asked for, or up to the largest that was needed.

    What was done already is in the folder of unfinished attacks, and is not done again.
    """
    from modelkeep.attack import robustness_curve

    moved = found.distance[(found.after != found.labels) & (found.distance > 0)]
    if found.target is not None or found.norm == "l0" or len(moved) == 0:
        return None
    most, count = (float(moved.max()), 8) if found.radius is None else (found.radius, 4)
    return robustness_curve(model, data, chosen, [most * i / count for i in range(1, count + 1)], seed=seed)


def _write(
    found: Result, curve: RobustnessCurve | None, model_name: str, data_name: str, folder: Path
) -> tuple[Result, tuple[Path, ...]]:
    """Write the page of an attack, also of one that has a result of its own kind, such as UPSET."""
    from modelkeep.attack import Attacked
    from modelkeep.report.attack import adversarial_npz, attack_page
    from modelkeep.report.page import Page, Part, Table
    from modelkeep.report.picture import Picture

    if isinstance(found, Attacked):
        report, page = attack_page(found, curve, model_name=model_name, data_name=data_name)
        others = {"adversarial.npz": adversarial_npz(found)}
        return report, page.write(folder, "attack.html", "attack.json", others)
    picture = Picture.of(found.draw(), "What the attack found", "")
    page = Page(
        result=found,
        title=f"Attacking {model_name} on {data_name}",
        parts=(Part("In figures", tables=(Table(found.rows()),), pictures=(picture,)),),
        pictures={"attack.png": picture},
    )
    return found, page.write(folder, "attack.html", "attack.json")
