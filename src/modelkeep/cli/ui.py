"""`modelkeep ui`: the open model, its runs and its forms in a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modelkeep.cli.model_options import DataSource, ModelOptions, with_model_options


@with_model_options
def ui(
    model: Annotated[str, typer.Argument(help="The model to begin with; you can open others in the browser.")] = "",
    data: DataSource = "",
    *,
    options: ModelOptions,
    train: Annotated[str | None, typer.Option(help="The training data; of a built-in set it is known.")] = None,
    folder: Annotated[Path, typer.Option(help="The folder with runs and studies.")] = Path("modelkeep-out"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen on this machine; 0: a free port.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in your browser.")] = True,
) -> None:
    """Explore a model in the browser: explain, attack, prove; runs and studies as they go on; two models compared.

    It listens on this machine alone, and prints an address that lets one browser in. Examples:

    * `modelkeep ui`

    * `modelkeep ui model.safetensors --data digits`
    """
    import webbrowser
    from contextlib import suppress

    from modelkeep.audit.sources import Sources
    from modelkeep.cli.checks import check_out
    from modelkeep.cli.forms import CommandLineForms
    from modelkeep.core.errors import InputError
    from modelkeep.web.serve import serve
    from modelkeep.web.workspace import Workspace

    check_out(folder)
    if bool(model) != bool(data):
        raise InputError("Name the model and its data: modelkeep ui MODEL --data DATA; or neither.")
    workspace = Workspace(folder, CommandLineForms())
    if model:
        workspace.open(Sources(model, data, train or "", options.repeat()))

    def ready(address: str) -> None:
        typer.echo(f"Open this address; it works once:\n  {address}\nCtrl-C ends it.")
        if browser:
            webbrowser.open(address)

    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        serve(workspace, port, ready)
    running = sum(job.state == "running" for job in workspace.jobs.all())
    if running:
        typer.echo(f"Still running: {running} of the commands. `modelkeep ui` shows them again, and stops them.")
