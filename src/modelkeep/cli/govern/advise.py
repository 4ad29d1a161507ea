"""`modelkeep govern advise`: where to cut a model between two parties, and what each could learn there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    ModelSource,
    Seed,
    model_and_data,
    with_model_options,
)


@with_model_options
def advise(
    model: ModelSource,
    data: DataSource,
    *,
    options: ModelOptions,
    cut: Annotated[
        list[str] | None, typer.Option(help="After which place, again for each; else all that can be (at most ten).")
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Between the parties, in megabytes per second; else loopback's, measured.")
    ] = None,
    latency: Annotated[
        float | None, typer.Option(help="Of a message between the parties, in milliseconds; else loopback's.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples per update.")] = 64,
    most_overhead: Annotated[float, typer.Option(help="How many times as long as in one process a step may take.")] = 2,
    completion_steps: Annotated[
        int,
        typer.Option(
            min=0, help="Steps of the trainings that show how hard each piece is to get back; 0: leave that out."
        ),
    ] = 100,
    out: Annotated[Path, typer.Option(help="The folder for advice.png and advice.json.")] = Path("modelkeep-out"),
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print advice.json instead of the table.")] = False,
) -> None:
    """Recommend where to cut a model between a party with the inputs and one with the labels.

    For each place: what crosses, what it costs, and how much of the inputs and of the labels attackers on the two sides
    reconstruct from it, and how much training gets either piece back. Takes some minutes for a small network. Examples:

    * `modelkeep govern advise model.safetensors --data mnist`

    * `modelkeep govern advise model.safetensors --data digits --cut conv1_pool --cut linear1`

    * `modelkeep govern advise model.safetensors --data test.csv --bandwidth 12.5 --latency 20`

    * `modelkeep govern advise model.safetensors --data digits --cut conv1_pool --completion-steps 300`
    """
    from dataclasses import replace

    from rich.console import Console

    from modelkeep.cli.checks import check_out
    from modelkeep.core import plots, progress
    from modelkeep.core.files import replace_file
    from modelkeep.govern import exposure
    from modelkeep.training import Recipe

    check_out(out)
    loaded, examined = model_and_data(model, data, options)
    link = exposure.Link.loopback()
    if bandwidth is not None:
        link = replace(link, bandwidth=1e6 * bandwidth, source="given")
    if latency is not None:
        link = replace(link, latency=latency / 1e3, source="given")
    completing = None
    if completion_steps:
        completing = exposure.Completing(Recipe(steps=completion_steps, batch_size=batch_size))
    with progress.show():
        found = exposure.advise(
            loaded,
            examined,
            cuts=cut,
            link=link,
            batch_size=batch_size,
            most_overhead=most_overhead,
            completing=completing,
            seed=seed,
        )
    out.mkdir(parents=True, exist_ok=True)
    record, picture = out / "advice.json", out / "advice.png"
    for path, content in ((record, found.to_json().encode()), (picture, plots.png_bytes(found.draw()))):
        with replace_file(path) as unfinished:
            unfinished.write_bytes(content)
    if as_json:
        typer.echo(record.read_text(encoding="utf-8"))
        return
    console = Console()
    console.print(found)
    console.print(f"The picture: [bold]{picture.resolve()}[/bold]  (for machines: {record.resolve()})", soft_wrap=True)
