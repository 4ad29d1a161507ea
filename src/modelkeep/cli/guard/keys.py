"""`modelkeep guard keys`: who may ask the gateway, how often and how much. Takes effect within two seconds."""

from __future__ import annotations

import getpass
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelkeep.guard.store.store import Principal, Store

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Give, rotate and revoke keys, also while the gateway runs: it notices within two seconds.\n\n"
    "The name `operator` is reserved: its key opens the metrics and the dashboard, and no model.",
)

Name = Annotated[str, typer.Argument(help="Whose key.")]
_ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="The gateway's settings; ./guard.toml if it is there.")
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", help="The store itself; ./modelkeep-guard.sqlite3 without settings.")
]
Queries = Annotated[int | None, typer.Option(min=0, help="How many queries in all; no limit by default.")]
_Rate = Annotated[float | None, typer.Option(min=0.001, help="How many per second; no limit by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
_RESERVED = ("anonymous", "gateway", "nobody")  # the audit log's own names


@app.command(epilog="Example: modelkeep guard keys add alice --queries 100000 --rate 50")
def add(
    name: Name,
    *,
    queries: Queries = None,
    rate: _Rate = None,
    config: _ConfigFile = None,
    store: StoreUrl = None,
    as_json: Json = False,
) -> None:
    """Give a new principal a key. It is printed once, and only its hash is kept."""
    from modelkeep.core.errors import GuardError
    from modelkeep.guard.gateway.principals import add_key
    from modelkeep.guard.store.store import Principal

    if name in _RESERVED:
        raise GuardError(f"'{name}' is a name of the gateway's own. Choose another one.")
    with open_store(config, store) as opened:
        known = _principals(opened).get(name)
        if known is not None and not known.revoked:
            raise GuardError(f"'{name}' has a key already. For another one: modelkeep guard keys rotate {name}")
        key = add_key(opened, Principal(name, queries, rate))
        _note(opened, "key added", name)
    _show(name, key, as_json)


@app.command(
    epilog="Example: modelkeep guard keys rotate alice, and when alice uses it: "
    "modelkeep guard keys revoke alice --keep"
)
def rotate(
    name: Name,
    *,
    now: Annotated[bool, typer.Option("--now", help="Revoke the old keys at once.")] = False,
    queries: Queries = None,
    rate: _Rate = None,
    config: _ConfigFile = None,
    store: StoreUrl = None,
    as_json: Json = False,
) -> None:
    """Give a principal a new key, and new limits if you name any. The old keys work until they are revoked."""
    from modelkeep.guard.gateway.principals import add_key, hash_key

    with open_store(config, store) as opened:
        known = _find(opened, name)
        limits = replace(
            known,
            queries=known.queries if queries is None else queries,
            rate=known.rate if rate is None else rate,
        )
        key = add_key(opened, limits)
        if now:
            opened.revoke(name, keep=hash_key(key))
        _note(opened, "key rotated at once" if now else "key rotated", name)
    _show(name, key, as_json)


@app.command(epilog="Example: modelkeep guard keys revoke alice")
def revoke(
    name: Name,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="All but one key, which is asked for (or read from stdin).")
    ] = False,
    config: _ConfigFile = None,
    store: StoreUrl = None,
) -> None:
    """Revoke a principal's keys. What was spent of the budget stays spent."""
    from modelkeep.core.errors import GuardError
    from modelkeep.guard.gateway.principals import hash_key

    with open_store(config, store) as opened:
        _find(opened, name)
        kept_key = None
        if keep:
            # Never an argument: those are seen by everybody on the machine, and stay in the shell's history.
            key = getpass.getpass("The key to keep: ") if sys.stdin.isatty() else sys.stdin.readline()
            kept_key = hash_key(key.strip())
            owner = opened.principal(kept_key)
            if owner is None or owner.name != name or owner.revoked:
                raise GuardError(f"That is no valid key of '{name}', so nothing was revoked.")
        count = opened.revoke(name, keep=kept_key)
        _note(opened, "keys revoked", name)
    typer.echo(f"revoked {count} of the keys of {name}; the gateway refuses them within two seconds")


@app.command("list", epilog="Example: modelkeep guard keys list --json")
def list_keys(*, config: _ConfigFile = None, store: StoreUrl = None, as_json: Json = False) -> None:
    """Who may ask, and how much they have asked. Keys are not known here, only their hashes."""
    with open_store(config, store) as opened:
        spent = opened.spent()
        principals = [
            {
                "name": one.name,
                "queries": one.queries,
                "rate": one.rate,
                "spent": spent.get(one.name, 0),
                "revoked": one.revoked,
            }
            for one in opened.principals()
        ]
    if as_json:
        typer.echo(json.dumps(principals))
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE)
    table.add_column("name", style="bold")
    for heading in ("spent", "of", "per second"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for one in principals:
        of = "no limit" if one["queries"] is None else f"{one['queries']:,}"
        rate = "no limit" if one["rate"] is None else f"{one['rate']:g}"
        table.add_row(str(one["name"]), f"{one['spent']:,}", of, rate, "revoked" if one["revoked"] else "")
    Console().print(table)


@contextmanager
def open_store(config: Path | None, url: str | None) -> Iterator[Store]:
    """The store of `--store`, of `--config`, of ./guard.toml, or the embedded one."""
    from modelkeep.guard.gateway.config import open_configured_store, parse_config, read_config

    if url is None and config is None and Path("guard.toml").exists():
        config = Path("guard.toml")
    if url is None and config is not None:
        settings = read_config(config)
    else:
        table = {} if url is None else {"store": {"url": url}}
        settings = parse_config({"model": {"path": "-"}, **table}, "The command line", Path())
    store = open_configured_store(settings)
    try:
        yield store
    finally:
        store.close()


def _principals(store: Store) -> dict[str, Principal]:
    return {one.name: one for one in store.principals()}


def _find(store: Store, name: str) -> Principal:
    from modelkeep.core.errors import GuardError, join_names

    known = _principals(store)
    if name not in known:
        raise GuardError(f"There is no principal '{name}' here. Known: {join_names(list(known)) or 'none'}.")
    return known[name]


def _note(store: Store, action: str, name: str) -> None:
    from modelkeep.guard.store.store import Event

    store.write([Event(time.time(), "gateway", action, json.dumps({"name": name}))])


def _show(name: str, key: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"name": name, "key": key}))
        return
    typer.echo(key)
    typer.secho(f"The key of {name}; it is shown this once. Send it as: Authorization: Bearer KEY", err=True)
