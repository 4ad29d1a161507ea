"""modelkeep data: which data sets there are, fetch one, look at one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from modelkeep.cli.checks import check_out_file
from modelkeep.cli.model_options import Label

app = typer.Typer(help="List, fetch and look at data sets.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
Cache = Annotated[Path | None, typer.Option(help="Where data is kept; else $MODELKEEP_CACHE or ~/.cache/modelkeep.")]


@app.command("list")
def list_sets(*, as_json: Json = False, cache: Cache = None) -> None:
    """Show the built-in data sets."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from modelkeep.zoo import datasets

    described = [_describe(name, cache) for name in datasets.names()]
    if as_json:
        typer.echo(json.dumps(described, ensure_ascii=False))
        return
    table = Table(caption="fetch one with: modelkeep data get NAME", box=SIMPLE, expand=True, padding=(0, 1, 0, 0))
    table.add_column("name", style="bold", no_wrap=True)
    for heading in ("shape", "classes", "train", "test", "here"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it is", no_wrap=True, ratio=1)  # The one column that gives way on a narrow terminal.
    for one in described:
        shape, rows = "×".join(map(str, one["shape"])) or "text", one["rows"]
        counts = (str(one["classes"]), f"{rows['train']:,}", f"{rows['test']:,}")
        table.add_row(one["name"], shape, *counts, "yes" if one["cached"] else "–", one["title"])
    Console().print(table)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A name from `modelkeep data list`.")],
    *,
    copy: Annotated[Path | None, typer.Option("--from", help="Take it from this file, archive or folder.")] = None,
    cache: Cache = None,
    as_json: Json = False,
) -> None:
    """Fetch a data set into the cache, check it, and read it once."""
    from modelkeep.core import progress
    from modelkeep.zoo import datasets
    from modelkeep.zoo.datasets.dataset import digest

    with progress.show():
        files = datasets.get(name, copy=copy, cache=cache)
        parts = {"train": datasets.load(name, "train", cache=cache), "test": datasets.load(name, "test", cache=cache)}
    described = _describe(name, cache) | {
        "files": {file: {"path": str(path), "checksum": digest(path)} for file, path in files.items()},
        "fingerprints": {part: data.fingerprint() for part, data in parts.items()},
    }
    if as_json:
        typer.echo(json.dumps(described, ensure_ascii=False))
        return
    for part, data in parts.items():
        typer.echo(f"{part}: {data!r}")
    typer.echo(f"split: {described['split']}")
    typer.echo(f"licence: {described['licence']}")
    if described["notes"]:
        typer.echo(f"note: {described['notes']}")
    for path in files.values():
        typer.echo(f"kept at {path}")


@app.command()
def show(
    source: Annotated[str, typer.Argument(help="A name from `modelkeep data list`, or a file or folder of yours.")],
    *,
    part: Annotated[Literal["train", "test"], typer.Option(help="The part of a built-in set.")] = "train",
    label: Label = "label",
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out; repeat it for more.")] = None,
    missing: Annotated[
        Literal["refuse", "indicate", "fill", "drop"],
        typer.Option(help="What to do with missing values; they are refused by default."),
    ] = "refuse",
    out: Annotated[Path | None, typer.Option(help="The file for the picture of images; default: ./NAME.png.")] = None,
    cache: Cache = None,
    as_json: Json = False,
) -> None:
    """Describe a data set: counts, classes, ranges, missing values; for images also a picture."""
    from rich.console import Console

    from modelkeep.core import progress
    from modelkeep.zoo import datasets

    check_out_file(out)
    with progress.show():
        data = datasets.open(source, label=label, ignore=ignore or (), missing=missing, part=part, cache=cache)
    summary = datasets.summarise(data)
    picture = None
    if summary.pictures is not None:
        picture = out if out is not None else Path(f"{data.name}.png")
        summary.draw().savefig(picture)
    if as_json:
        typer.echo(summary.to_json())
        return
    Console().print(summary)
    if picture is not None:
        typer.echo(f"picture: {picture}")


def _describe(name: str, cache: Path | None) -> dict[str, Any]:
    """The description of a data set as plain values."""
    from modelkeep.zoo import datasets

    dataset = datasets.info(name)
    plain = {key: getattr(dataset, key) for key in ("name", "title", "kind", "shape", "classes", "licence", "home")}
    return plain | {
        "rows": dict(dataset.rows),
        "split": dataset.split,
        "notes": dataset.notes,
        "download": dataset.download,
        "cached": datasets.is_cached(name, cache=cache),
    }
