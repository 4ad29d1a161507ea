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
from modelkeep.core.errors import StudyError, join_names
from modelkeep.study.ledger import DEFAULT_PATH, Ledger

if TYPE_CHECKING:
    from modelkeep.papers.paper import PaperStudy

# Named here and not in the capabilities' packages, because a study knows of no capability.
REGISTRY = (
    "modelkeep.papers.leino2022.figure_9_1:FIGURE_9_1",
    "modelkeep.papers.leino2022.table_9_2:TABLE_9_2",
    "modelkeep.papers.leino2022.figure_9_3:FIGURE_9_3A",
    "modelkeep.papers.leino2022.figure_9_3:FIGURE_9_3B",
    "modelkeep.papers.leino2022.figure_9_3:FIGURE_9_3C",
    "modelkeep.papers.leino2022.figure_9_4:FIGURE_9_4",
    "modelkeep.papers.leino2022.table_9_6:TABLE_9_6",
    "modelkeep.papers.leino2022.table_9_6_images:TABLE_9_6_IMAGES",
    "modelkeep.papers.saha2020.plasticity.table_5_1:PLASTICITY",
    "modelkeep.papers.saha2020.plasticity.table_5_1:FIGURE_5_2",
    "modelkeep.papers.saha2020.plasticity.memory:MEMORY",
    "modelkeep.papers.saha2020.plasticity.sweep:SWEEP",
    "modelkeep.papers.saha2020.plasticity.hypotheses:PHI",
    "modelkeep.papers.saha2020.table_4_1:TABLE_4_1",
    "modelkeep.papers.leino2022.table_6_7:TABLE_6_7",
    "modelkeep.papers.leino2022.table_6_9:TIGHTNESS",
    "modelkeep.papers.leino2022.posthoc_certification:POSTHOC",
    "modelkeep.papers.leino2022.table_7_3:RELAXED",
    "modelkeep.papers.leino2022.table_7_3_aircraft:TARGETED",
    "modelkeep.papers.tang2024.tables_2_to_5:EXTRACTION_MNIST",
    "modelkeep.papers.tang2024.tables_2_to_5:EXTRACTION_FASHION",
    "modelkeep.papers.tang2024.tables_2_to_5:EXTRACTION_ANIMALS",
    "modelkeep.papers.tang2024.tables_2_to_5:EXTRACTION_DRAWINGS",
    "modelkeep.papers.tang2024.figures_3_4:FIGURE_3",
    "modelkeep.papers.tang2024.figures_3_4:FIGURE_4",
    "modelkeep.papers.tang2024.table_6:TABLE_6",
    "modelkeep.papers.tang2024.table_6:NEVER_CLEAN",
    "modelkeep.papers.tang2024.figures_5_6:DETECTION",
    "modelkeep.papers.tang2024.figures_5_6:GROWTH",
    "modelkeep.papers.tang2024.figures_5_6:TIMES",
    "modelkeep.papers.martic2018.agent_learning:LEARNING",
    "modelkeep.papers.martic2018.completion:COMPLETION",
    "modelkeep.papers.martic2018.findings:PROCEDURE_STUDY",
    "modelkeep.papers.martic2018.findings:RESIDUAL_STUDY",
    "modelkeep.papers.martic2018.reinforcement:LAYERS",
    "modelkeep.papers.martic2018.findings:PARAMETER_STUDY",
    "modelkeep.papers.martic2018.completion:AGENTS",
    "modelkeep.papers.martic2018.reinforcement:EXPERIENCE",
    "modelkeep.papers.martic2018.reinforcement:OTHER_PROCEDURES",
    "modelkeep.papers.martic2018.modulation:MODULATION",
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

    from modelkeep.core.files import replace_file
    from modelkeep.core.plots import png_bytes
    from modelkeep.papers.paper import PaperTable

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
        with replace_file(folder / file) as unfinished:
            unfinished.write_bytes(content)
    written = [*files, *(page.name for page in (report.pages(folder) if isinstance(report, PaperTable) else ()))]
    if as_json:
        typer.echo(report.to_json())
    else:
        Console().print(report)
        typer.echo(f"Written to {folder}: {join_names(written)}.")
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
