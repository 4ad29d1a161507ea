"""`modelkeep fix`: run the remedy of a finding, audit again, and show before and after side by side."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.audit_trials import open_sources
from modelkeep.cli.ending import ExitCode, run
from modelkeep.cli.model_options import ModelOptions

if TYPE_CHECKING:
    from rich.table import Table

    from modelkeep.audit import Audit


def fix(
    finding: Annotated[str, typer.Argument(help="The finding's id, such as robustness.adversarial-examples.")],
    audited: Annotated[Path, typer.Option("--run", help="The run.json of the audit that found it.")] = Path(
        "modelkeep-out/run.json"
    ),
    out: Annotated[Path, typer.Option(help="The folder for the mended model and its report.")] = Path(
        "modelkeep-out/fixed"
    ),
    dry: Annotated[bool, typer.Option("--dry-run", help="Say which command would run, and do nothing else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Mend what an audit found: run its remedy, audit the new model on the same examples, compare the two.

    The remedy is the command that the finding names: adversarial or certified training, private training, bias
    mitigation, settings of the guard, a plan for encryption. Your model's file stays as it is. Examples:

    * `modelkeep fix robustness.adversarial-examples`

    * `modelkeep fix membership.leaks --run modelkeep-out/run.json --out private`
    """
    from rich.console import Console

    from modelkeep import cli
    from modelkeep.audit import audit_page
    from modelkeep.audit.comparison import compare
    from modelkeep.audit.remedies import find_finding, find_remedy
    from modelkeep.cli.audit import conclude, read_audit
    from modelkeep.cli.checks import check_out

    check_out(out)
    before = read_audit(audited)
    found = find_finding(before, finding)
    remedy = find_remedy(before, found, out)
    console = Console(stderr=True)
    console.print(f"[bold]{found.title}.[/] To mend it:\n  {remedy.command}", soft_wrap=True, highlight=False)
    if dry:
        return
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # the JSON is ours alone
        code = run(cli.app, remedy.words)
    if code != ExitCode.DONE:
        raise typer.Exit(code)
    if remedy.makes is None:
        console.print("The remedy is a setting, not another model: there is nothing to audit again.")
        return
    after = audit_again(before, remedy.makes, found.id)
    comparison = compare(before.restrict(after), after)
    if as_json:
        audit_page(after, comparison).write(out, "report.html", "run.json", {"comparison.json": comparison.to_json()})
        typer.echo(comparison.to_json())
        return
    conclude(after, out, as_json=False, comparison=comparison)
    Console().print(put_side_by_side(before, after))


def put_side_by_side(before: Audit, after: Audit) -> Table:
    """Each measure that both audits have: before, and after the remedy."""
    from rich.table import Table

    table = Table(title="Before and after", title_justify="left")
    for column in ("measure", "before", "after"):
        table.add_column(column)
    old = {measure.name: measure.estimate for section in before.sections for measure in section.measures}
    for section in after.sections:
        for measure in section.measures:
            if measure.name in old:
                table.add_row(measure.name, str(old[measure.name]), str(measure.estimate))
    return table


def audit_again(before: Audit, model: Path, finding: str) -> Audit:
    """The same checks, seed and examples on the mended model, as far as they concern the finding and the accuracy."""
    from modelkeep.audit import Settings, audit
    from modelkeep.audit.sources import Sources
    from modelkeep.core import progress

    section = next(s for s in before.sections if any(each.id == finding for each in s.findings))
    checks = tuple(dict.fromkeys(("accuracy", section.check)))
    settings = Settings.read(before.provenance.settings, checks=checks)
    old = before.sources
    options = ModelOptions.read(old.options, only_data=True)
    sources = Sources(str(model), old.data, old.train, options.repeat())
    loaded, examined, members = open_sources(sources)
    with progress.show():
        return audit(
            loaded,
            examined,
            settings,
            train=members,
            seed=before.provenance.seed,
            name=model.name,
            sources=sources,
        )
