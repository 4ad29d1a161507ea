"""`modelkeep guard`: put a model on the net without giving it away, and say who may ask how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelkeep.cli.guard import keys
from modelkeep.cli.guard.demo import demo

if TYPE_CHECKING:
    from modelkeep.guard.gateway.assembly import Planned
    from modelkeep.guard.gateway.config import Config
    from modelkeep.guard.gateway.service import Service

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

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


@app.command(epilog="Example: modelkeep guard init guard.toml")
def init(file: Annotated[Path, typer.Argument(help="Where to write them.")] = Path("guard.toml")) -> None:
    """Write settings with what each of them means, to change and to serve."""
    from modelkeep.core.errors import GuardError
    from modelkeep.guard.gateway.example import EXAMPLE

    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(EXAMPLE.replace("{file}", file.name))
    except FileExistsError as error:
        raise GuardError(f"{file} is there already, and is not overwritten. Name another file.") from error
    except OSError as error:
        raise GuardError(f"{file} cannot be written: {error.strerror}.") from error
    typer.echo(f"wrote {file}; change it, then run: modelkeep guard check {file}")


@app.command(epilog="Example: modelkeep guard check guard.toml --json")
def check(
    config: Annotated[Path, typer.Argument(help="The file with the settings.")], *, as_json: Json = False
) -> None:
    """Check settings as a whole, load the model, and say what would be served. Opens no port and no store."""
    from modelkeep.guard.gateway.assembly import planned
    from modelkeep.guard.gateway.config import read
    from modelkeep.guard.gateway.process import check_tls

    settings = read(config)
    check_tls(settings)
    _say(_described(planned(settings)), as_json)


@app.command(
    epilog="Examples: modelkeep guard serve guard.toml · modelkeep guard serve model.safetensors "
    "--defence modelguard-s --epsilon 1.0 --port 8000"
)
def serve(
    source: Annotated[str, typer.Argument(help="A .toml file with settings, or a model as other commands take it.")],
    *,
    defence: Annotated[
        str | None, typer.Option(help="none, top1, rounding, modelguard-w or modelguard-s (the default).")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="How far answers may lie from predictions, in ℓ1.")] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; this machine only by default.")] = None,
    port: Annotated[int | None, typer.Option(help="For REST; 8000 by default.")] = None,
    grpc_port: Annotated[int | None, typer.Option(help="For gRPC; none by default.")] = None,
    name: Annotated[str | None, typer.Option(help="What clients call the model.")] = None,
    weights: Annotated[Path | None, typer.Option(help="The safetensors file for a factory.")] = None,
    store: Annotated[
        str | None, typer.Option(help="sqlite:///FILE (./modelkeep-guard.sqlite3 by default) or postgresql://…")
    ] = None,
    anyone: Annotated[bool | None, typer.Option("--open", help="Nobody needs a key.")] = None,
    as_json: Json = False,
) -> None:
    """Serve a model behind its defence until Ctrl-C or SIGTERM. What is given here goes before what the file says.

    The same query gets the same answer for ever, also after a crash: the state is in the store. Requests under way are
    finished before the end; a second Ctrl-C ends at once.
    """
    from modelkeep.guard.gateway.assembly import planned
    from modelkeep.guard.gateway.config import checked, raw
    from modelkeep.guard.gateway.process import serve as run

    from_file = source.endswith(".toml")
    given: dict[str, Any] = raw(Path(source)) if from_file else {"model": {"path": source, "name": _name(source)}}
    if defence is not None:
        given["defence"] = {"name": defence}
    for section, key, value in (
        ("defence", "epsilon", epsilon),
        ("server", "host", host),
        ("server", "port", port),
        ("server", "grpc_port", grpc_port),
        ("model", "name", name),
        ("model", "weights", None if weights is None else weights.absolute()),
        ("store", "url", store),
        ("principals", "open", anyone),
    ):
        if value is not None:
            given.setdefault(section, {"name": "modelguard-s"} if section == "defence" else {})[key] = value
    folder = Path(source).resolve().parent if from_file else Path()
    plan = planned(checked(given, source if from_file else "The command line", folder))

    def ready(service: Service) -> None:
        _say(_described(plan), as_json)
        if not as_json:
            if not service.principals.open and not service.principals.store.principals():
                typer.secho("Nobody has a key yet. Make one with: modelkeep guard keys add NAME", fg="yellow")
            typer.echo("Ready. Ctrl-C finishes what is under way, and ends.")

    run(plan, ready)


def _name(source: str) -> str:
    """The name of a model that has none: that of its file or factory."""
    import re

    stem = source.rpartition(":")[2] if ":" in source else Path(source).stem
    return re.sub(r"[^A-Za-z0-9_.-]", "-", stem) or "model"


def _described(plan: Planned) -> dict[str, Any]:
    config, policy = plan.config, plan.policy
    return {
        "model": config.model.name,
        "version": config.model.version,
        "source": config.model.path or config.model.upstream,
        "input": {"name": plan.input.name, "datatype": plan.input.datatype, "shape": list(plan.input.shape)},
        "output": {"name": plan.output.name, "classes": policy.classes},
        "defence": policy.defence.name,
        "epsilon": policy.defence.epsilon,
        "noise": policy.noise,
        "epoch": policy.epoch,
        "rest": _address(config),
        "grpc": None if config.server.grpc_port is None else f"{config.server.host}:{config.server.grpc_port}",
        "store": config.store.url,
        "keys": "nobody needs one" if config.principals.open else "needed",
    }


def _address(config: Config) -> str:
    scheme = "http" if config.server.tls_certificate is None else "https"
    host = f"[{config.server.host}]" if ":" in config.server.host else config.server.host
    return f"{scheme}://{host}:{config.server.port}"


def _say(described: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(described))
        return
    shape = "×".join(map(str, described["input"]["shape"]))
    classes = described["output"]["classes"]
    typer.echo(f"model    {described['model']} version {described['version']} from {described['source']}")
    typer.echo(f"takes    {described['input']['name']}: {described['input']['datatype']} {shape}")
    typer.echo(f"gives    {described['output']['name']}: {classes} classes, guarded by {described['defence']}")
    typer.echo(f"budget   at most {described['epsilon']:g} from the prediction in ℓ1")
    typer.echo(f"epoch    {described['epoch']}")
    typer.echo(f"store    {described['store']}")
    typer.echo(f"keys     {described['keys']}")
    typer.echo(f"REST     {described['rest']}/v2/models/{described['model']}/infer")
    if described["grpc"] is not None:
        typer.echo(f"gRPC     {described['grpc']}")
