"""`modelkeep study papers`, and `modelkeep study NAME`: the papers' tables and figures, made again."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from modelkeep.cli.checks import check_out
from modelkeep.cli.model_options import Seed
from modelkeep.cli.study import (
    Again,
    AsJson,
    EngineName,
    LedgerPath,
    Processes,
    Where,
    engine_for,
    print_table,
    require_all_done,
    run_shown,
    warn_of_other_code,
)
from modelkeep.core.errors import join_names
from modelkeep.core.registry import declarations
from modelkeep.papers.bibliography import cite
from modelkeep.study.ledger import DEFAULT_PATH, Ledger


class Studies(TyperGroup):
    """The commands of `modelkeep study`; the name of a paper study in their place runs it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # click's own types, wherever Typer has them from
        if args[0] not in self.commands and args[0] in declarations("study"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def further_names(self) -> list[str]:
        """The names that stand in a command's place, for a name that was mistyped."""
        return list(declarations("study"))


class SizeName(StrEnum):
    """How large a study is."""

    small = "small"
    medium = "medium"
    paper = "paper"


def papers(as_json: AsJson = False) -> None:
    """The tables and figures of the papers that can be made again."""
    found = sorted(declarations("study").values(), key=lambda each: each.name)
    rows = [{"name": each.name, "where": each.paper, "shows": each.does, "extra": each.extra} for each in found]
    works = cite(" ".join(each.paper for each in found))
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        shown = [
            [row["name"], row["shows"] + f" (extra: {row['extra']})" * bool(row["extra"]), row["where"]] for row in rows
        ]
        print_table(shown, ["name", "shows", "where"])
        typer.echo("\n".join(works))


def run(
    name: Annotated[str, typer.Argument(help="A study of `modelkeep study papers`.")],
    size: Annotated[
        SizeName,
        typer.Option(
            help="small: a coffee break on two cores; medium: a working day, where there is one; paper: its own."
        ),
    ] = SizeName.small,
    processes: Processes = None,
    engine: Where = EngineName.local,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for study.html, result.json, figure.png; default: modelkeep-out/NAME."),
    ] = None,
    seed: Seed = 0,
    again: Again = False,
    ledger: LedgerPath = DEFAULT_PATH,
    as_json: AsJson = False,
) -> None:
    """Make a table or figure of a paper again: ours beside the paper's, as text, as JSON and as a picture.

    Trials that the ledger has are not run again: after Ctrl-C, the same command goes on. Where the code changed since a
    result was made, the table says so, and --again makes these results anew.
    """
    from rich.console import Console

    from modelkeep.core.files import replace_file
    from modelkeep.core.plots import png_bytes
    from modelkeep.papers.study import load_study
    from modelkeep.papers.table import PaperTable
    from modelkeep.report.study import study_page

    chosen = load_study(name)
    folder = out if out is not None else DEFAULT_PATH.parent / name
    check_out(folder)
    command = f"modelkeep study run {name} --size {size} --seed {seed}{' --again' if again else ''}"
    with Ledger(ledger) as opened:
        # One thread: how a sum is divided among threads changes its last digits.
        runs_there = engine_for(engine, processes, threads=1)
        result = run_shown(chosen.study(size.value, seed), opened, runs_there, command, again=again)
    report = chosen.report(result)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"result.json": report.to_json().encode(), "figure.png": png_bytes(report.draw())}
    for file, content in files.items():
        with replace_file(folder / file) as unfinished:
            unfinished.write_bytes(content)
    page = study_page(report, name, size.value, result)
    page.write(folder, "study.html", "result.json")
    written = [
        "study.html",
        *files,
        *(page.name for page in (report.pages(folder) if isinstance(report, PaperTable) else ())),
    ]
    if as_json:
        typer.echo(report.to_json())
    else:
        Console().print(report)
        typer.echo(f"Written to {folder}: {join_names(written)}.")
    warn_of_other_code(result, command)
    require_all_done(result)
