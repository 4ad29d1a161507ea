"""`modelkeep audit`: every check on one model and one data set, as a report."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelkeep.audit import Audit

Out = Annotated[Path, typer.Option(help="The folder that report.html and run.json are written to.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same figures.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print run.json instead of the summary.")]


class FailOn(StrEnum):
    """The severity from which on the command fails, for CI."""

    high = "high"
    medium = "medium"
    never = "never"


def audit(
    model: Annotated[str, typer.Argument(help="A .safetensors, .pt2 or .onnx file, or package.module:factory.")],
    data: Annotated[str, typer.Option(help="A built-in set, or your .npz, .csv, .parquet or image folder.")],
    weights: Annotated[Path | None, typer.Option(help="The safetensors file for a factory.")] = None,
    input_shape: Annotated[str | None, typer.Option(help="Such as 3,32,32, where the model file does not say.")] = None,
    label: Annotated[str, typer.Option(help="The column with the labels, in a table.")] = "label",
    examples: Annotated[int, typer.Option(help="How many examples to attack and explain.")] = 256,
    out: Out = Path("modelkeep-out"),
    seed: Seed = 0,
    fail_on: Annotated[FailOn, typer.Option(help="Exit with 2 on a finding of this severity.")] = FailOn.never,
    device: Annotated[str, typer.Option(help="Where to run: cpu, cuda, cuda:1 …")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Check a model: is it right, can it be fooled, what does it look at?

    The module of a factory is looked for in the current folder too. Examples:

    * `modelkeep audit model.safetensors --data digits`

    * `modelkeep audit mine:network --weights mine.safetensors --data mine.npz --input-shape 1,28,28`
    """
    from modelkeep import Model, datasets, progress
    from modelkeep.audit import Settings
    from modelkeep.audit import audit as run_audit

    if ":" in model:
        # Last, and only for a factory that the user named: a file in this folder must not pass for a library.
        sys.path.append(str(Path.cwd()))
    examined = datasets.open(data, label=label, part="test")
    known = {"input_shape": _shape(input_shape)} if input_shape is not None else {}
    loaded = Model.load(model, weights=weights, like=examined, device=device, **known)
    with progress.shown():
        result = run_audit(loaded, examined, Settings(examples=examples), seed=seed, name=Path(model).name)
    conclude(result, out, as_json)
    severities = {finding.severity for finding in result.findings}
    if (fail_on == FailOn.high and "high" in severities) or (
        fail_on == FailOn.medium and severities & {"high", "medium"}
    ):
        raise typer.Exit(2)


def conclude(result: Audit, out: Path, as_json: bool) -> None:
    """Write the report; say where it is and its three most important lines."""
    from rich.console import Console

    from modelkeep.audit import write

    page, record = write(result, out)
    if as_json:
        typer.echo(record.read_text(encoding="utf-8"))
        return
    colours = {"high": "red", "medium": "yellow", "low": "blue", "unclear": "dim", "good": "green"}
    console = Console()
    console.print(f"\nThe report: [bold]{page.resolve()}[/bold]  (for machines: {record.resolve()})", soft_wrap=True)
    for finding in result.findings[:3]:
        colour = colours[finding.severity]
        console.print(f"  [{colour}]{finding.severity:>7}[/{colour}]  [bold]{finding.title}.[/bold] {finding.measured}")


def _shape(text: str) -> tuple[int, ...]:
    from modelkeep.errors import bad_parameter

    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError as error:
        raise bad_parameter("audit", "--input-shape", "sizes with commas between, such as 3,32,32", text) from error
