"""`modelkeep study`: what the ledger holds, and how to go on with it."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelkeep.cli.checks import check_out_file
from modelkeep.cli.ending import ExitCode
from modelkeep.core.errors import StudyError
from modelkeep.study.labels import labels
from modelkeep.study.ledger import DEFAULT_PATH, Ledger
from modelkeep.study.record import FAILURES, Record

if TYPE_CHECKING:
    from modelkeep.study import Limits, Study, StudyResult
    from modelkeep.study.study import Engine

app = typer.Typer(
    help="Make the papers' tables again; see, continue and export studies: many trainings, kept in a ledger.",
    epilog="Example: modelkeep study list, then modelkeep study show NAME, then modelkeep study resume NAME",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The study's name; `modelkeep study list` shows them all.")]
LedgerPath = Annotated[Path, typer.Option("--ledger", help="The ledger's file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class EngineName(StrEnum):
    """Where trials can run."""

    local = "local"
    ray = "ray"


Processes = Annotated[int | None, typer.Option(help="Local processes at a time; default: one per core.")]
Again = Annotated[bool, typer.Option("--again", help="Run the trials anew whose results other code made.")]
Where = Annotated[EngineName, typer.Option(help="Where to run the trials.")]


class Format(StrEnum):
    """What an export can be."""

    json = "json"
    csv = "csv"


@app.command("list", epilog="Example: modelkeep study list --ledger experiments/ledger.sqlite3")
def list_studies(ledger: LedgerPath = DEFAULT_PATH, as_json: AsJson = False) -> None:
    """The studies of a ledger, and how many of their trials are done, failed and missing."""
    with Ledger(ledger, create=False) as opened:
        counts = {name: opened.counts(name) for name in opened.studies()}
    rows = []
    for name, states in counts.items():
        done, running, failed = states["done"], states["running"], sum(states[state] for state in FAILURES)
        missing = states.total() - done - running - failed
        rows.append({"study": name, "done": done, "running": running, "failed": failed, "missing": missing})
    if as_json:
        typer.echo(json.dumps(rows))
    elif rows:
        print_table([[str(value) for value in row.values()] for row in rows], list(rows[0]))
    else:
        typer.echo(f"The ledger '{ledger}' holds no study yet.")


@app.command(epilog="Example: modelkeep study show widths --trial 3fa9 (the first digits of a trial's id are enough)")
def show(
    name: Name,
    trial: Annotated[str | None, typer.Option(help="Show one trial in full, with its value or traceback.")] = None,
    ledger: LedgerPath = DEFAULT_PATH,
    as_json: AsJson = False,
) -> None:
    """The trials of a study: what was tried, how it stands, what came out."""
    with Ledger(ledger, create=False) as opened:
        records = opened.records(name)
    if trial is not None:
        records = [_chosen(records, name, trial)]
    if as_json:
        typer.echo(json.dumps([asdict(record) for record in records]))
    elif trial is not None:
        for key, value in asdict(records[0]).items():
            if value is not None and value != ():
                typer.echo(f"{key}: {value}")
    else:
        named = labels([record.trial for record in records])
        rows = [
            [r.identity[:8], label, r.state + "*" * bool(r.changed_files), str(r.attempts), _seconds(r), r.brief]
            for r, label in zip(records, named, strict=True)
        ]
        print_table(rows, ["id", "trial", "state", "tries", "seconds", "value or error"])
        files = sorted({file for record in records for file in record.changed_files})
        if files:
            typer.echo(f"* Made by other code, changed since: {', '.join(files)}.")
            typer.echo(f"To run these anew: modelkeep study resume {name} --again")


@app.command(epilog="Example: modelkeep study resume widths --processes 4 --seconds 600")
def resume(
    name: Name,
    processes: Processes = None,
    engine: Where = EngineName.local,
    retries: Annotated[int, typer.Option(help="How often to try a failed trial again.")] = 1,
    seconds: Annotated[float | None, typer.Option(help="The time that one trial may take.")] = None,
    megabytes: Annotated[float | None, typer.Option(help="The memory that one trial may use.")] = None,
    again: Again = False,
    ledger: LedgerPath = DEFAULT_PATH,
    as_json: AsJson = False,
) -> None:
    """Run what is missing or failed. Finished trials are not run again; start it where the trials' module is found.

    A ledger names the functions that are run: resume only ledgers that you trust.
    """
    from modelkeep.study import Limits, Study

    runs_there = engine_for(engine, processes)
    # The study was started here. Last, so that a file in this folder cannot pass for a library.
    sys.path.append(os.getcwd())
    with Ledger(ledger, create=False) as opened:
        before = opened.records(name)
        study = Study.recall(opened, name)
        new = sum(old.identity != now.identity for old, now in zip(before, study.trials, strict=True))
        if new:
            typer.echo(f"{new} trials have a new version, so they run anew; their old results stay.", err=True)
        command = f"modelkeep study resume {name}{' --again' if again else ''}"
        result = run_shown(study, opened, runs_there, command, Limits(seconds, megabytes), retries, again)
    typer.echo(result.to_json() if as_json else str(result))
    warn_of_other_code(result, command)
    require_all_done(result)


@app.command(epilog="Example: modelkeep study export widths --format csv --out widths.csv")
def export(
    name: Name,
    form: Annotated[Format, typer.Option("--format", help="json keeps all; csv has one line per trial.")] = Format.json,
    out: Annotated[Path | None, typer.Option(help="The file for the trials; default: standard output.")] = None,
    ledger: LedgerPath = DEFAULT_PATH,
) -> None:
    """Write a study's trials, parameters and values for other tools."""
    check_out_file(out)
    with Ledger(ledger, create=False) as opened:
        records = opened.records(name)
    if form is Format.csv:
        text = _csv(records)
    else:
        text = json.dumps({"study": name, "trials": [asdict(record) for record in records]}, indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
        typer.echo(f"Wrote {len(records)} trials to {out}.", err=True)


def engine_for(name: EngineName, processes: int | None, threads: int | None = None) -> Engine:
    """The engine that runs the trials, with `threads` each (None: each trial's share of the cores)."""
    from modelkeep.study import Local, Ray

    if name is EngineName.local:
        return Local(processes, threads)
    if processes is not None:
        raise StudyError("The option --processes is for --engine local; Ray uses the cores of its cluster.")
    return Ray()


def run_shown(
    study: Study,
    ledger: Ledger,
    engine: Engine,
    command: str,
    limits: Limits | None = None,
    retries: int = 1,
    again: bool = False,
) -> StudyResult:
    """Run a study with its progress shown; after Ctrl-C say that `command` is the one that goes on."""
    from modelkeep.core import progress
    from modelkeep.study import run

    try:
        with progress.show():
            return run(study, ledger, engine, limits=limits, retries=retries, again=again)
    except KeyboardInterrupt:
        done = ledger.counts(study.name)["done"]
        typer.echo(f"Stopped. {done} of {len(study.trials)} trials are done; continue with: {command}", err=True)
        raise typer.Exit(ExitCode.STOPPED) from None


def warn_of_other_code(result: StudyResult, command: str) -> None:
    """Say which results other code made, and how to make them anew."""
    if result.other_code:
        again = command if command.endswith("--again") else f"{command} --again"
        typer.echo(f"Made by other code: {result.other_code}. To run them anew: {again}", err=True)


def require_all_done(result: StudyResult) -> None:
    """Refuse to end well where a trial failed, also one that was run again, and say how to see why."""
    failed = [record for record in result.records if record.state != "done" or record.error]
    if failed:
        raise StudyError(
            f"{len(failed)} of {len(result.records)} trials failed. "
            f"See why with: modelkeep study show {result.study} --trial {failed[0].identity[:8]}"
        )


def _csv(records: list[Record]) -> str:
    rows = []
    for record in records:
        row = {"id": record.identity, "trial": record.name, "version": record.version, "seed": record.seed}
        row |= {"state": record.state, "made by other code": " ".join(record.changed_files)}
        row |= {"seconds": _seconds(record), "error": (record.error or "").strip()}
        row |= {f"parameter.{key}": _cell(value) for key, value in record.parameters.items()}
        if isinstance(record.value, dict):
            row |= {f"value.{key}": _cell(part) for key, part in record.value.items()}
        elif record.state == "done":
            row["value"] = _cell(record.value)
        rows.append(row)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _seconds(record: Record) -> str:
    return "" if record.seconds is None else f"{record.seconds:.2f}"


def _chosen(records: list[Record], name: str, trial: str) -> Record:
    found = [record for record in records if record.identity.startswith(trial)]
    if len(found) != 1:
        raise StudyError(
            f"The study '{name}' has {len(found)} trials whose id begins with '{trial}'. "
            f"Give more of it; `modelkeep study show {name} --json` prints the ids in full."
        )
    return found[0]


def print_table(rows: list[list[str]], columns: list[str]) -> None:
    """Print rows of plain text under the names of their columns."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # What a person copies, the name in the first column, is never cut; the others are wrapped between words.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, no_wrap=i == 0, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: what a user wrote in [brackets] is not markup
    Console().print(table)
