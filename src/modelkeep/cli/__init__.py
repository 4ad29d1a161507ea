"""The command `modelkeep`: one module per verb, and errors that are sentences."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from modelkeep.cli import certify, data, encrypt, govern, guard, papers, study
from modelkeep.cli.attack import AttackCommand, attack
from modelkeep.cli.audit import audit
from modelkeep.cli.bias import bias
from modelkeep.cli.complete import complete
from modelkeep.cli.convert import convert
from modelkeep.cli.demo import demo
from modelkeep.cli.describe import describe
from modelkeep.cli.doctor import doctor
from modelkeep.cli.ending import run
from modelkeep.cli.explain import explain
from modelkeep.cli.extract import ExtractCommand, extract
from modelkeep.cli.fix import fix
from modelkeep.cli.harden import HardenCommand, harden
from modelkeep.cli.method_options import method_command
from modelkeep.cli.methods import methods
from modelkeep.cli.privacy import privacy
from modelkeep.cli.report import report
from modelkeep.cli.train_privately import TrainPrivatelyCommand, train_privately
from modelkeep.cli.ui import ui
from modelkeep.core import progress
from modelkeep.core.version import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="modelkeep",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Trust and control for the deep model that you own: explain, attack, harden, certify, audit it.\n\n"
    "Start with `modelkeep demo`, then run `modelkeep audit` on your own model.",
)
app.command()(demo)
app.command()(audit)
app.command()(fix)
app.command()(report)
app.command()(ui)
app.command()(describe)
app.command()(convert)
app.command(cls=method_command("explainer", "integrated-gradients", without=("call",)))(explain)
app.command(cls=AttackCommand)(attack)
app.command(cls=HardenCommand)(harden)
app.command(cls=method_command("mitigation", "experts", selectors=("--mitigate",)))(bias)
app.command(cls=method_command("membership", "rmia"))(privacy)
app.command(cls=TrainPrivatelyCommand)(train_privately)
app.command(cls=ExtractCommand)(extract)
app.command()(complete)
app.command()(methods)
app.command()(doctor)
app.add_typer(certify.app, name="certify")
app.add_typer(data.app, name="data")
app.add_typer(guard.app, name="guard")
app.add_typer(govern.app, name="govern")
app.add_typer(encrypt.app, name="encrypt")
study.app.command(epilog="Example: modelkeep study papers")(papers.papers)
study.app.command(epilog="Example: modelkeep study plasticity --size small")(papers.run)
app.add_typer(study.app, name="study", cls=papers.Studies)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def about(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere in a command.")
    ] = False,
) -> None:
    """What holds for all verbs; `run` looks for --debug itself."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command; what it cannot do is one sentence and an exit code, not a traceback."""
    code = run(app, sys.argv[1:])
    progress.tell_end(code)
    sys.exit(code)
