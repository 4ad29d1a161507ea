"""`modelkeep study papers`, and `modelkeep study NAME`: the papers' tables and figures, made again."""

from __future__ import annotations

import json
from difflib import get_close_matches
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from modelkeep.cli.study import (
    AsJson,
    EngineName,
    LedgerPath,
    Processes,
    Where,
    engine_for,
    print_table,
    require_all_done,
    run_shown,
)
from modelkeep.errors import StudyError, listed
from modelkeep.study.ledger import DEFAULT_PATH, Ledger

if TYPE_CHECKING:
    from modelkeep.study.paper import PaperStudy

# Named here and not in the capabilities' packages, because a study knows of no capability.
REGISTRY = (
    "modelkeep.bias.studies.figure_9_1:FIGURE_9_1",
    "modelkeep.bias.studies.table_9_2:TABLE_9_2",
    "modelkeep.bias.studies.figure_9_3:FIGURE_9_3A",
    "modelkeep.bias.studies.figure_9_3:FIGURE_9_3B",
    "modelkeep.bias.studies.figure_9_3:FIGURE_9_3C",
    "modelkeep.bias.studies.figure_9_4:FIGURE_9_4",
    "modelkeep.bias.studies.table_9_6:TABLE_9_6",
    "modelkeep.bias.studies.table_9_6_images:TABLE_9_6_IMAGES",
    "modelkeep.harden.studies.plasticity.table_5_1:PLASTICITY",
    "modelkeep.harden.studies.plasticity.table_5_1:FIGURE_5_2",
    "modelkeep.harden.studies.plasticity.memory:MEMORY",
    "modelkeep.harden.studies.plasticity.sweep:SWEEP",
    "modelkeep.harden.studies.plasticity.hypotheses:PHI",
    "modelkeep.harden.studies.table_4_1:TABLE_4_1",
    "modelkeep.certify.studies.verified:TABLE_6_7",
    "modelkeep.certify.studies.tightness:TIGHTNESS",
    "modelkeep.certify.studies.posthoc:POSTHOC",
    "modelkeep.certify.studies.relaxed:RELAXED",
    "modelkeep.certify.studies.targeted:TARGETED",
    "modelkeep.extract.studies.tables:EXTRACTION_MNIST",
    "modelkeep.extract.studies.tables:EXTRACTION_FASHION",
    "modelkeep.extract.studies.tables:EXTRACTION_ANIMALS",
    "modelkeep.extract.studies.tables:EXTRACTION_DRAWINGS",
    "modelkeep.extract.studies.budgets:FIGURE_3",
    "modelkeep.extract.studies.budgets:FIGURE_4",
    "modelkeep.extract.studies.quantisation:TABLE_6",
    "modelkeep.extract.studies.quantisation:NEVER_CLEAN",
    "modelkeep.extract.studies.utility:DETECTION",
    "modelkeep.extract.studies.utility:GROWTH",
    "modelkeep.extract.studies.utility:TIMES",
    "modelkeep.rl.studies.learning:LEARNING",
    "modelkeep.completion.studies.completion:COMPLETION",
    "modelkeep.completion.studies.findings:PROCEDURE_STUDY",
    "modelkeep.completion.studies.findings:RESIDUAL_STUDY",
    "modelkeep.completion.studies.reinforcement:LAYERS",
    "modelkeep.completion.studies.findings:PARAMETER_STUDY",
    "modelkeep.completion.studies.completion:AGENTS",
    "modelkeep.completion.studies.reinforcement:EXPERIENCE",
    "modelkeep.completion.studies.reinforcement:OTHER_PROCEDURES",
    "modelkeep.completion.studies.modulating:MODULATION",
)


class Studies(TyperGroup):
    """The commands of `modelkeep study`; the name of a paper study in their place runs it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # click's own types, wherever Typer has them from
        if args[0] not in self.commands and args[0] in {study.name for study in map(load, REGISTRY)}:
            args = ["run", *args]
        return super().resolve_command(ctx, args)


class SizeName(StrEnum):
    """How large a study is."""

    small = "small"
    medium = "medium"
    paper = "paper"


def papers(as_json: AsJson = False) -> None:
    """The tables and figures of the papers that can be made again."""
    found = [{"name": study.name, "where": study.where, "shows": study.shows} for study in map(load, REGISTRY)]
    if as_json:
        typer.echo(json.dumps(found))
    else:
        print_table([list(row.values()) for row in found], list(found[0]))


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
        Path | None, typer.Option(help="The folder for result.json and figure.png; default: modelkeep-out/NAME.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same figures.")] = 0,
    ledger: LedgerPath = DEFAULT_PATH,
    as_json: AsJson = False,
) -> None:
    """Make a table or figure of a paper again: ours beside the paper's, as text, as JSON and as a picture.

    Trials that the ledger has are not run again: after Ctrl-C, the same command goes on.
    """
    from rich.console import Console

    from modelkeep.files import replacing
    from modelkeep.plots import png_bytes
    from modelkeep.study.paper import PaperTable

    chosen = _find(name)
    folder = out if out is not None else DEFAULT_PATH.parent / name
    again = f"modelkeep study run {name} --size {size} --seed {seed}"
    with Ledger(ledger) as opened:
        # One thread: how a sum is divided among threads changes its last digits.
        result = run_shown(chosen.study(size.value, seed), opened, engine_for(engine, processes, threads=1), again)
    report = chosen.report(result)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"result.json": report.to_json().encode(), "figure.png": png_bytes(report.draw())}
    for file, content in files.items():
        with replacing(folder / file) as unfinished:
            unfinished.write_bytes(content)
    written = [*files, *(page.name for page in (report.pages(folder) if isinstance(report, PaperTable) else ()))]
    if as_json:
        typer.echo(report.to_json())
    else:
        Console().print(report)
        typer.echo(f"Written to {folder}: {listed(written)}.")
    require_all_done(result)


def load(entry: str) -> PaperStudy:
    """The study that an entry of the registry names."""
    module, _, name = entry.partition(":")
    found: PaperStudy = getattr(import_module(module), name)
    return found


def _find(name: str) -> PaperStudy:
    known = {study.name: study for study in map(load, REGISTRY)}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        meant = f" Did you mean '{close[0]}'?" if close else ""
        raise StudyError(f"There is no paper study '{name}'.{meant} `modelkeep study papers` lists them all.")
    return known[name]
