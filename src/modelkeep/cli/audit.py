"""`modelkeep audit`: every check on one model and one data set, as a report."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.ending import ExitCode
from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    ModelSource,
    Seed,
    model_and_data,
    read_like,
    with_model_options,
)
from modelkeep.cli.study import Processes

if TYPE_CHECKING:
    from modelkeep.audit import Audit
    from modelkeep.audit.comparison import Comparison
    from modelkeep.audit.plan import Plan

Out = Annotated[Path, typer.Option(help="The folder for report.html and run.json.")]
Budget = Annotated[
    str, typer.Option(help="The time for all checks, such as 90s, 10m or 2h: cheap ones first, deeper with more.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print run.json instead of the summary.")]


class EngineName(StrEnum):
    """Where the checks run: one after another in this process, in several processes, or on a Ray cluster."""

    here = "here"
    local = "local"
    ray = "ray"


class FailOn(StrEnum):
    """What makes the command fail, for CI: a severity, or a finding that is new or worse than the baseline's."""

    high = "high"
    medium = "medium"
    worse = "worse"
    never = "never"


@with_model_options
def audit(
    model: ModelSource,
    data: DataSource,
    *,
    options: ModelOptions,
    examples: Annotated[int, typer.Option(help="How many examples to attack and explain.")] = 256,
    attack: Annotated[
        str | None, typer.Option(help="The attack; else PGD, and the standard ensemble as the budget allows.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the attack, if it takes steps.")] = 40,
    train: Annotated[
        str | None,
        typer.Option(help="The training data: then it is checked what the model gives away about it."),
    ] = None,
    slice: Annotated[str | None, typer.Option(help="The inner place to explain; else the last one.")] = None,
    cut: Annotated[
        str | None, typer.Option(help="Where two parties would cut the model: what does each side protect?")
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option(help="Only this check, by its name in `modelkeep methods check`; repeat it.")
    ] = None,
    budget: Budget = "10m",
    engine: Annotated[
        EngineName, typer.Option(help="Where the checks run: here, in local processes, or on Ray.")
    ] = EngineName.here,
    processes: Processes = None,
    policy: Annotated[
        Path | None, typer.Option(help="Your thresholds, severities and exceptions, a .toml file.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="The run.json of an earlier audit: what is new, worse, better, gone since?")
    ] = None,
    out: Out = Path("modelkeep-out"),
    seed: Seed = 0,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            help="Exit with 1 on a finding of this severity (or one that is new or worse than the baseline's); with 3 "
            "where too few examples say so."
        ),
    ] = FailOn.never,
    as_json: AsJson = False,
) -> None:
    """Check a model: is it right, can it be fooled, what does it look at?

    The module of a factory is looked for in the current folder too. Examples:

    * `modelkeep audit model.safetensors --data digits`

    * `modelkeep audit model.safetensors --data test.csv --train train.csv --budget 30m`

    * `modelkeep audit model.safetensors --data digits --baseline last/run.json --fail-on worse`

    * `modelkeep audit mine:network --weights mine.safetensors --data mine.npz --input-shape 1,28,28`
    """
    from modelkeep.audit import Settings
    from modelkeep.audit import audit as run_audit
    from modelkeep.audit.audit import plan_audit
    from modelkeep.audit.comparison import compare
    from modelkeep.audit.journal import Journal
    from modelkeep.audit.policy import Policy
    from modelkeep.audit.sources import Sources
    from modelkeep.cli.audit_trials import run_elsewhere
    from modelkeep.cli.checks import check_out
    from modelkeep.cli.study import EngineName as StudyEngine
    from modelkeep.cli.study import engine_for
    from modelkeep.core import progress
    from modelkeep.core.errors import InputError

    check_out(out)
    if fail_on is FailOn.worse and baseline is None:
        raise InputError("--fail-on worse needs something to compare with: --baseline run.json.")
    rules = None if policy is None else Policy.read(policy)
    before = None if baseline is None else read_audit(baseline)
    settings = Settings(examples=examples, steps=steps, slice=slice, attack=attack, cut=cut)
    settings = replace(settings, minutes=read_minutes(budget))
    settings = replace(settings, checks=tuple(check)) if check else settings
    loaded, examined = model_and_data(model, data, options, train)
    members = None if train is None else read_like(examined, train, options.description(model), part="train")
    sources = Sources(model, data, train or "", options.repeat())
    journal = Journal(out / "unfinished-audit")
    plan = plan_audit(loaded, examined, settings, train=members, sources=sources)
    show_plan(plan, len(examined))
    with progress.show():
        if engine is not EngineName.here:
            run_elsewhere(
                plan,
                loaded,
                examined,
                settings,
                sources,
                train=members,
                journal=journal,
                engine=engine_for(StudyEngine(engine.value), processes),
                seed=seed,
            )
        result = run_audit(
            loaded,
            examined,
            settings,
            train=members,
            seed=seed,
            name=Path(model).name,
            sources=sources,
            journal=journal,
            plan=plan,
        )
    if rules is not None:
        applied = rules.apply(result)
        result = applied.audit
        for note in applied.notes:
            typer.echo(note, err=True)
    comparison = None if before is None else compare(before, result)
    conclude(result, out, as_json, comparison)
    if result.stopped:
        typer.echo("Stopped: the report has what was finished. The same command goes on from there.", err=True)
        raise typer.Exit(ExitCode.STOPPED)
    journal.remove()
    raise typer.Exit(_judge(result, fail_on, comparison))


def read_audit(path: Path) -> Audit:
    """The audit that was stored in a run.json."""
    from modelkeep.audit import Audit
    from modelkeep.core.errors import InputError

    if not path.is_file():
        raise InputError(f"There is no audit at '{path}'. `modelkeep audit` writes one as run.json.")
    return Audit.from_json(path.read_text(encoding="utf-8"))


def show_plan(plan: Plan, rows: int) -> None:
    """Say on standard error what will run on so many `rows`, how long it takes, and what will not run and why."""
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=True)
    table = Table(title=f"The plan: about {plan.seconds:.0f} s of {60 * plan.minutes:.0f} s", title_justify="left")
    for column in ("check", "depth", "examples", "estimate"):
        table.add_column(column, justify="right" if column in ("examples", "estimate") else "left")
    for step in plan.steps:
        examples = getattr(step.check, "examples", None)
        looked_at = "–" if examples is None else str(min(examples, rows))
        table.add_row(step.name, step.depth or "–", looked_at, f"{step.seconds:.1f} s")
    console.print(table)
    for step in plan.left_out:
        console.print(f"  not run: [bold]{step.name}[/bold]. {step.why}", highlight=False)


def read_minutes(text: str) -> float:
    """The minutes of a budget; a plain number is minutes.

    >>> read_minutes("90s"), read_minutes("10m"), read_minutes("2h"), read_minutes("5")
    (1.5, 10.0, 120.0, 5.0)
    """
    from modelkeep.core.errors import InputError

    units = {"s": 1 / 60, "m": 1.0, "h": 60.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "m")
    try:
        minutes = float(number) * units[unit]
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < float("inf"):
        raise InputError(f"--budget must be a time such as 90s, 10m or 2h. Got '{text}'.")
    return minutes


def _judge(result: Audit, fail_on: FailOn, comparison: Comparison | None) -> ExitCode:
    """Whether the gate holds; too few examples to say so is no pass."""
    if fail_on is FailOn.never:
        return ExitCode.DONE
    if fail_on is FailOn.worse and comparison is not None:
        if comparison.of("new", "worse"):
            return ExitCode.GATE
        return ExitCode.INCONCLUSIVE if comparison.of("unclear") else ExitCode.DONE
    failing = {"high"} if fail_on is FailOn.high else {"high", "medium"}
    counting = [finding for finding in result.findings if not finding.ignored]
    if any(finding.severity in failing for finding in counting):
        return ExitCode.GATE
    # What cannot be proved is never graver than low, and what did not run is said: neither hides what the gate is for.
    doubts = [
        each
        for each in counting
        if each.status == "inconclusive" and not each.id.startswith(("certification.", "encryption."))
    ]
    return ExitCode.INCONCLUSIVE if doubts else ExitCode.DONE


def conclude(result: Audit, out: Path, as_json: bool, comparison: Comparison | None = None) -> None:
    """Write the report; say the verdict, the three most important findings and where the report is."""
    from rich.console import Console
    from rich.markup import escape

    from modelkeep.audit import audit_page
    from modelkeep.cli.output import show_files

    others = {} if comparison is None else {"comparison.json": comparison.to_json()}
    written = audit_page(result, comparison).write(out, "report.html", "run.json", others)
    if as_json:
        typer.echo(result.to_json())
        return
    colours = {"high": "red", "medium": "yellow", "low": "blue", "unclear": "dim", "good": "green"}
    console = Console()
    verdict = result.verdict
    console.print(f"\n[bold {colours[verdict.level]}]{escape(verdict.line)}[/]")
    for finding in result.findings[:3]:
        colour = colours[finding.severity]
        console.print(
            f"  [{colour}]{finding.severity:>7}[/]  [bold]{escape(finding.title)}.[/] {escape(finding.measured)}"
        )
    if comparison is not None:
        console.print(f"\n[bold]{escape(comparison.verdict)}[/]")
        for each in comparison.of("new", "worse", "better", "gone"):
            console.print(f"  {each.change:>7}  {escape(each.title)}. {escape(each.why)}", highlight=False)
    show_files(console, written, "report")
