"""`modelkeep encrypt`: let others ask a model about data that it never sees."""

from __future__ import annotations

import typer

from modelkeep.cli.encrypt.ask import ask
from modelkeep.cli.encrypt.demo import demo
from modelkeep.cli.encrypt.plan import plan
from modelkeep.cli.encrypt.serve import serve

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Answer questions about encrypted data: the client keeps its key, the server computes on ciphertexts (CKKS) "
    "and learns neither the input nor the answer.\n\n"
    "See it work with `modelkeep encrypt demo`. Then: `plan` your model, `serve` it, and `ask` it.",
)
app.command(epilog="Example: modelkeep encrypt demo --questions 5")(demo)
app.command(epilog="Example: modelkeep encrypt plan model.safetensors --data digits --replace --out square.pt2")(plan)
app.command(epilog="Example: modelkeep encrypt serve square.pt2 --data digits --port 8443")(serve)
app.command(epilog="Example: modelkeep encrypt ask http://127.0.0.1:8443 --input x.npy --json")(ask)
