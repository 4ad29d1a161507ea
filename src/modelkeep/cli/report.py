"""`modelkeep report`: a stored audit in the formats of other people's programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelkeep.audit import Audit

_OUT = Path("modelkeep-out")


def report(
    run: Annotated[Path | None, typer.Argument(help="The run.json of an audit.")] = None,
    format: Annotated[
        list[str] | None,
        typer.Option(help="Such as html, markdown, junit, sarif, model-card, cyclonedx or annex-iv; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file for one format or the folder for several; else one is printed."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of run.json.")] = False,
) -> None:
    """Write a stored audit as HTML, Markdown, JUnit, SARIF, a model card, a bill of materials or a technical draft.

    `modelkeep methods report-format` lists the formats. Examples:

    * `modelkeep report modelkeep-out/run.json --format sarif --out report.sarif`

    * `modelkeep report modelkeep-out/run.json --format junit --format markdown --out reports`

    * `modelkeep report --schema`
    """
    import json

    from modelkeep.audit.formats.format import find_format, write_formats
    from modelkeep.audit.schema import audit_schema
    from modelkeep.cli.checks import check_out, check_out_file
    from modelkeep.core.errors import InputError

    if schema:
        typer.echo(json.dumps(audit_schema(), indent=2))
        return
    if run is None:
        raise InputError("Name the run.json of an audit, or give --schema.")
    names = list(dict.fromkeys(format or ["markdown"]))
    chosen = [find_format(name) for name in names]
    folder = out if out is not None else _OUT
    if len(chosen) > 1:
        check_out(folder)
    else:
        check_out_file(out)
    found = _read(run)
    if len(chosen) > 1:
        for path in write_formats(found, folder, names):
            typer.echo(path)
    elif out is None:
        typer.echo(chosen[0].write(found), nl=False)
    else:
        from modelkeep.report.page import write_files

        for path in write_files(out.parent, {out.name: chosen[0].write(found)}):
            typer.echo(path)


def _read(run: Path) -> Audit:
    from modelkeep.audit import Audit
    from modelkeep.core.errors import InputError

    try:
        return Audit.from_json(run.read_bytes())
    except OSError as error:
        raise InputError(f"'{run}' cannot be read: {error.strerror}. `modelkeep audit` writes a run.json.") from error
