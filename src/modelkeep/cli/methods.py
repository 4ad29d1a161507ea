"""`modelkeep methods`: everything that has a name, by family, with its settings and its paper."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

_FamilyName = Annotated[str, typer.Argument(help="Such as attack, guard or dataset; all families by default.")]


def methods(
    family: _FamilyName = "",
    name: Annotated[str, typer.Argument(help="One method of the family: shows its settings.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """List the methods that can be named on a command line, in a settings file or in Python.

    Methods of other packages are listed too, where they are installed. Examples:

    * `modelkeep methods attack`

    * `modelkeep methods attack pgd` (its settings)
    """
    from modelkeep.cli.study import print_table
    from modelkeep.core.errors import InputError, did_you_mean
    from modelkeep.core.registry import declarations, families, find

    if name:
        rows = _setting_rows(find(family, name).load())
        if as_json:
            typer.echo(json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in rows]))
        else:
            print_table(rows, list(COLUMNS))
        return
    if family and family not in families():
        meant = did_you_mean(family, families())
        raise InputError(f"There is no family '{family}'.{meant} There are: {', '.join(families())}.")
    found = [each for one in ([family] if family else families()) for each in declarations(one).values()]
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found]))
    else:
        print_table(
            [[each.family, each.name, each.access, each.does, each.paper] for each in found],
            ["family", "name", "sees", "what it does", "paper"],
        )


COLUMNS = ("setting", "default", "allowed", "what it is")


def _setting_rows(method: type) -> list[list[str]]:
    """A row for each setting of a method."""
    from dataclasses import is_dataclass

    from modelkeep.core.method import options_of

    return [
        [each.name, "required" if each.required else str(each.default), each.setting.allowed, each.setting.doc]
        for each in (options_of(method) if is_dataclass(method) else ())
    ]
