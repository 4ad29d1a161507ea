"""`modelkeep certify verify`: check a certificate that others made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelkeep.certify.verifier import Report


def verify(
    certificate: Annotated[Path, typer.Argument(help="The certificate.json that you were given.")],
    weights: Annotated[Path | None, typer.Option(help="The model's .safetensors file.")] = None,
    data: Annotated[
        str | None, typer.Option(help="The whole data set: its name, or an .npz file with `x`, `y` and `classes`.")
    ] = None,
    signer: Annotated[str | None, typer.Option(help="The fingerprint that the signer told you.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Check a certificate with a small program of its own, which shares no code with what certified.

    It ends in one of three words. *verified*: the signer is the one that you named, and everything was computed again
    from the weights and the data. *consistent*: nothing fails of what could be checked without them. *refused*.

    It needs only numpy, also without the rest of ModelKeep: `python -m modelkeep.certify.verifier --help`. Example:

    * `modelkeep certify verify certificate.json --weights model.safetensors --data inputs.npz --signer 1a2b:…`
    """
    from modelkeep.certify import verifier
    from modelkeep.core.errors import InputError
    from modelkeep.zoo import datasets

    try:
        if data is None:
            given = None
        elif data.endswith(".npz"):
            given = verifier.Given.read(Path(data))
        else:
            opened = datasets.open(data, part="test")
            given = verifier.Given(opened.x.numpy(), opened.y.numpy(), opened.classes)
    except verifier.Refused as error:
        raise InputError(str(error)) from error
    report = verifier.verify(certificate, weights=weights, data=given, signer=signer)
    if as_json:
        typer.echo(report.to_json())
    else:
        _print_report(report)
    raise typer.Exit(report.exit_code)


def _print_report(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table

    colours = {"holds": "green", "fails": "red"}
    table = Table("check", "result", "what it says")
    for check in report.checks:
        table.add_row(check.name, f"[{colours.get(check.status, 'yellow')}]{check.status}[/]", check.says)
    console = Console()
    console.print(table)
    console.print(report.verdict, markup=False, highlight=False)
