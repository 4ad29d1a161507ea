"""`modelkeep bias`: does the model predict some classes more often than they occur, and could it do otherwise?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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


@with_model_options
def bias(
    context: typer.Context,
    model: ModelSource,
    data: DataSource,
    *,
    options: ModelOptions,
    slice: Annotated[str | None, typer.Option(help="Whose features; else what the last linear layer sees.")] = None,
    mitigate: Annotated[
        str | None, typer.Option(help="Make a model that amplifies less: standardise, experts, parity or l1.")
    ] = None,
    train: Annotated[str | None, typer.Option(help="The training data; of a built-in set it is known.")] = None,
    examples: Annotated[
        int | None, typer.Option(min=1, help="How many examples of --data are measured, drawn by the seed; else all.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Where to save the mitigated model; else mitigated.safetensors in --out.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the pictures, bias.html and bias.json.")] = Path(
        "modelkeep-out"
    ),
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print bias.json instead of the summary.")] = False,
) -> None:
    """Measure bias amplification: what of it is unavoidable, what the use of features explains, and what to do.

    Give data that the model was not trained on (of a built-in set, its test part is taken). Examples:

    * `modelkeep bias model.safetensors --data breast-cancer`

    * `modelkeep bias model.safetensors --data breast-cancer --mitigate standardise --save better.safetensors`

    * `modelkeep bias model.safetensors --data test.csv --train train.csv --mitigate l1`
    """
    from rich.console import Console

    from modelkeep.cli.checks import check_out
    from modelkeep.cli.method_options import make_method
    from modelkeep.cli.output import show_files
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError
    from modelkeep.report import bias_page, measure_bias

    if mitigate is None and (train is not None or save is not None):
        raise InputError(
            "--train and --save belong to --mitigate: say how to mitigate (standardise, experts, parity or l1)."
        )
    if save is not None and save.suffix != ".safetensors":
        raise InputError(f"A model is saved as a '.safetensors' file. Got --save {save}.")
    check_out(out)
    loaded, examined = model_and_data(model, data, options, train)
    examined = examined if examples is None else examined.sample(min(examples, len(examined)), seed)
    chosen_on = None
    if mitigate is not None:
        why = "--mitigate chooses features on"
        chosen_on = training_data(model, data, train, options, examined, why)
    mitigation = make_method(context) if mitigate is not None else None
    with progress.show():
        found = measure_bias(
            loaded, examined, slice=slice, train=chosen_on, mitigation=mitigation, name=Path(model).name, seed=seed
        )
    written = bias_page(found).write(out, "bias.html", "bias.json")
    saved = None
    if found.mitigated is not None:
        saved = found.mitigated.model.save(save if save is not None else out / "mitigated.safetensors")
        save_beside(saved, examined)
    if as_json:
        typer.echo(found.to_json())
        return
    console = Console()
    show_files(console, written)
    if saved is not None:
        console.print(f"The mitigated model: [bold]{saved.resolve()}[/bold]", soft_wrap=True)
    console.print(found.verdict, highlight=False)
    console.print(found)
