"""`modelkeep govern`: one model, several owners, and no pass through it without the consent of them all."""

from __future__ import annotations

from collections.abc import Callable

import typer

from modelkeep.cli.govern import keys
from modelkeep.cli.govern.advise import advise
from modelkeep.cli.govern.consent import approve, pending, restore, withdraw
from modelkeep.cli.govern.demo import demo
from modelkeep.cli.govern.draft import draft, material
from modelkeep.cli.govern.exchange import exchange
from modelkeep.cli.govern.identity import init, passphrase, sign
from modelkeep.cli.govern.inspect import audit, status
from modelkeep.cli.govern.oversight import check, release
from modelkeep.cli.govern.run import evaluate, infer, serve, train
from modelkeep.cli.govern.weights import assemble, export, split

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Own a model together: it is cut into pieces, each party holds its own on its own machine, and every pass "
    "through the model, to train it or to ask it, needs the consent of all.\n\n"
    "See it work with `modelkeep govern demo`. Then: `init`, `draft`, `sign`, `split`, `serve` and `train`.",
)
EXAMPLES: dict[Callable[..., None], str] = {
    demo: "demo --data digits",
    init: "init alice",
    passphrase: "passphrase alice",
    advise: "advise model.safetensors --data mnist",
    material: "material mine.npz",
    draft: "draft agreement.json --party alice.party.json --party bob.party.json --address alice=192.0.2.1:7401 "
    "--address bob=192.0.2.2:7401 --model small_cnn --cut conv1_pool --holders alice,bob --data mnist --epochs 3",
    sign: "sign agreement.json --folder alice",
    exchange: "exchange bob --with alice.party.json --at 192.0.2.2:7401",
    split: "split new alice bob --agreement agreement.json",
    serve: "serve bob --data mnist",
    train: "train alice --data mnist",
    evaluate: "evaluate alice --data mnist",
    infer: "infer alice --data mine.npz --out answers.npz",
    approve: "approve bob --purpose infer --passes 100",
    withdraw: "withdraw bob --reason 'the contract has ended'",
    restore: "restore bob",
    pending: "pending bob",
    status: "status bob",
    audit: "audit agreement.json alice.ledger.jsonl bob.ledger.jsonl",
    check: "check alice --of bob",
    release: "release alice --receiver bob",
    export: "export alice --out for-the-auditor",
    assemble: "assemble agreement.json alice.piece.safetensors bob.piece.safetensors --out model.safetensors",
}
for verb, example in EXAMPLES.items():
    app.command(epilog=f"Example: modelkeep govern {example}")(verb)
app.add_typer(keys.app, name="keys")
