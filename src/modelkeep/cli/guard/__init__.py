"""`modelkeep guard`: put a model on the net without giving it away, and say who may ask how much."""

from __future__ import annotations

import typer

from modelkeep.cli.guard import keys
from modelkeep.cli.guard.demo import demo
from modelkeep.cli.guard.gateway import check, init, serve
from modelkeep.cli.method_options import method_command

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Serve a model so that a thief gets little: a gateway that speaks the Open Inference Protocol v2 (REST and "
    "gRPC), in front of your model or of a server that has it.\n\n"
    "See what it does with `modelkeep guard demo`. Then `modelkeep guard keys add alice` and "
    "`modelkeep guard serve model.safetensors`.",
)
app.add_typer(keys.app, name="keys")
app.command(epilog="Example: modelkeep guard demo --queries 1000")(demo)
app.command(epilog="Example: modelkeep guard init guard.toml")(init)
app.command(epilog="Example: modelkeep guard check guard.toml --json")(check)
app.command(
    cls=method_command("guard", "modelguard-s", selectors=("--defence",)),
    epilog="Examples: modelkeep guard serve guard.toml · modelkeep guard serve model.safetensors "
    "--defence modelguard-s --epsilon 1.0 --port 8000 · modelkeep guard serve --defence mad --help",
)(serve)
