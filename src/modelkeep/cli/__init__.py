"""The command `modelkeep`: one module per verb, and errors that are sentences."""

from __future__ import annotations

import sys

import typer

from modelkeep.cli import certify, data, govern, guard, papers, study
from modelkeep.cli.attack import AttackCommand, attack
from modelkeep.cli.audit import audit
from modelkeep.cli.bias import bias
from modelkeep.cli.complete import complete
from modelkeep.cli.demo import demo
from modelkeep.cli.doctor import doctor
from modelkeep.cli.explain import explain
from modelkeep.cli.extract import ExtractCommand, extract
from modelkeep.cli.harden import HardenCommand, harden
from modelkeep.cli.method_options import method_command
from modelkeep.cli.methods import methods
from modelkeep.core.errors import ModelKeepError
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
app.command(cls=method_command("explainer", "integrated-gradients", without=("call",)))(explain)
app.command(cls=AttackCommand)(attack)
app.command(cls=HardenCommand)(harden)
app.command(cls=method_command("mitigation", "experts", selectors=("--mitigate",)))(bias)
app.command(cls=ExtractCommand)(extract)
app.command()(complete)
app.command()(methods)
app.command()(doctor)
app.add_typer(certify.app, name="certify")
app.add_typer(data.app, name="data")
app.add_typer(guard.app, name="guard")
app.add_typer(govern.app, name="govern")
study.app.command(epilog="Example: modelkeep study papers")(papers.papers)
study.app.command(epilog="Example: modelkeep study plasticity --size small")(papers.run)
app.add_typer(study.app, name="study", cls=papers.Studies)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command; what ModelKeep refuses on purpose is one sentence and exit code 1, not a traceback."""
    try:
        app()
    except ModelKeepError as error:
        typer.secho(f"modelkeep: {error}", fg="red", err=True)
        sys.exit(1)
    except SystemExit as stop:
        # Typer makes an exit of Ctrl-C, and says nothing.
        if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):
            typer.secho("modelkeep: stopped; what was finished is kept.", err=True)
        raise
