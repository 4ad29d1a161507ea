"""The live view of a party: a table on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from modelkeep.govern.session.party import Party

_EVERY = 10.0  # seconds between two lines while passes go on


@contextmanager
def watching(party: Party, *, plain: bool) -> Iterator[None]:
    """Show what the party does for the time of the block."""
    if plain or not sys.stdout.isatty():
        with _lines(party):
            yield
        return
    from rich.console import Console
    from rich.live import Live

    with Live(get_renderable=lambda: view(party), console=Console(), refresh_per_second=4):
        yield


def view(party: Party) -> Table:
    """The party's state at this moment."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{party.name} · {party.agreement.name}", show_header=False, min_width=60)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for label, value in rows(party):
        table.add_row(label, Text(value))  # plain: what others wrote is no markup
    return table


def rows(party: Party) -> list[tuple[str, str]]:
    """What the view says, a label and a value per line."""
    status, (sent, received) = party.status, party.links.bytes
    passes = sum(status.passes.values())
    now = f"{status.under_way}" if status.under_way is not None else "waits"
    found = [
        ("listens at", party.links.address),
        ("now", f"{now}, in a session that {party.passes.leader} leads" if party.passes.leader else now),
        ("passes", _counted(status.passes)),
        ("consents", _counted(status.consents)),
        ("refusals", _counted(status.refusals)),
        ("updates", f"{party.pieces.step} of {party.pieces.total}"),
        ("sent, received", f"{sent / 1e6:,.1f} MB, {received / 1e6:,.1f} MB"),
        ("time", f"{time.monotonic() - status.since:,.0f} s, of which {status.seconds:,.1f} s in passes"),
    ]
    if passes:
        found.append(("time per pass", f"{1000 * status.seconds / passes:,.1f} ms"))
    if "loss" in status.metrics:
        found.append(("last loss", f"{status.metrics['loss']:.4g}"))
    if status.news:
        found.append(("news", status.news))
    return found


@contextmanager
def _lines(party: Party) -> Iterator[None]:
    """One line per piece of news, one every few seconds while passes go on, one at the end."""
    end = threading.Event()

    def write() -> None:
        told, passes, last = 0, 0, time.monotonic()
        ended = False
        while not ended:
            ended = end.wait(0.2)  # once more after the end, for the last news
            status = party.status
            new, told = status.news_count - told, status.news_count
            for news in list(status.recent)[-new:] if new else []:
                typer.echo(news)
            if sum(status.passes.values()) != passes and time.monotonic() - last > _EVERY:
                passes, last = sum(status.passes.values()), time.monotonic()
                typer.echo(line(party))

    writer = threading.Thread(target=write, name="view", daemon=True)
    writer.start()
    try:
        yield
    finally:
        end.set()
        writer.join()
        typer.echo(line(party))


def line(party: Party) -> str:
    """The view in one line."""
    shown = ("passes", "refusals", "updates", "sent, received", "last loss")
    return " · ".join(f"{label}: {value}" for label, value in rows(party) if label in shown)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} to {purpose}" for purpose, count in counts.items()) or "none"
