"""`modelkeep guard init`, `check` and `serve`: write the gateway's settings, check them, and serve a model by them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelkeep.cli.method_options import given_settings, list_methods
from modelkeep.cli.model_options import ModelOptions, without_data_options

if TYPE_CHECKING:
    from modelkeep.guard.gateway.assembly import Plan
    from modelkeep.guard.gateway.config import Config
    from modelkeep.guard.gateway.service import Service

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


def init(
    file: Annotated[Path, typer.Argument(help="Where to write them.")] = Path("guard.toml"),
    *,
    model: Annotated[str, typer.Option(help="The model to serve, as in [model] path.")] = "model.safetensors",
    data: Annotated[
        str | None, typer.Option(help="Your own data, to seed the lists with and to know queries from elsewhere by.")
    ] = None,
) -> None:
    """Write settings with what each of them means, to change and to serve, and a secret so that no answer is clean."""
    from modelkeep.core.errors import GuardError
    from modelkeep.core.setting_files import make_secret
    from modelkeep.guard.gateway.example import example_settings

    secret = file.with_suffix(".secret")
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(example_settings(file.name, secret=secret.name, model=model, data=data))
    except FileExistsError as error:
        raise GuardError(f"{file} is there already, and is not overwritten. Name another file.") from error
    except OSError as error:
        raise GuardError(f"{file} cannot be written: {error.strerror}.") from error
    kept = "a new secret" if make_secret(secret) else "the secret that was there"
    typer.echo(f"wrote {file}, with {kept} in {secret}; change it, then run: modelkeep guard check {file}")


def check(
    config: Annotated[Path, typer.Argument(help="The file with the settings.")], *, as_json: Json = False
) -> None:
    """Check settings as a whole, load the model, and say what would be served. Opens no port and no store."""
    from modelkeep.guard.gateway.assembly import make_plan
    from modelkeep.guard.gateway.config import read_config
    from modelkeep.guard.gateway.process import check_tls

    settings = read_config(config)
    check_tls(settings)
    _show(_summary(make_plan(settings)), as_json)


@without_data_options
def serve(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help="A .toml file with settings, or a model as other commands take it.")
    ] = "",
    *,
    options: ModelOptions,
    defence: Annotated[
        str | None, typer.Option(help="The guard; modelguard-s by default. Its settings are options, too: see --list.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; this machine only by default.")] = None,
    port: Annotated[int | None, typer.Option(help="For REST; 8000 by default.")] = None,
    grpc_port: Annotated[int | None, typer.Option(help="For gRPC; none by default.")] = None,
    name: Annotated[str | None, typer.Option(help="What clients call the model.")] = None,
    store: Annotated[
        str | None, typer.Option(help="sqlite:///FILE (./modelkeep-guard.sqlite3 by default) or postgresql://…")
    ] = None,
    anyone: Annotated[bool | None, typer.Option("--open", help="No key is needed.")] = None,
    as_json: Json = False,
    show_list: Annotated[bool, typer.Option("--list", help="Print the guards, and do no more.")] = False,
) -> None:
    """Serve a model behind a guard until Ctrl-C or SIGTERM. What is given here goes before what the file says.

    The same query gets the same answer for ever, also after a crash: the state is in the store. Requests under way are
    finished before the end; a second Ctrl-C ends at once.
    """
    from modelkeep.cli.study import print_table
    from modelkeep.core.errors import InputError
    from modelkeep.guard.gateway.assembly import make_plan
    from modelkeep.guard.gateway.config import DEFAULT_DEFENCE, parse_config, read_toml
    from modelkeep.guard.gateway.process import serve as run

    if show_list:
        print_table(list_methods("guard"), ["--defence", "sees", "what it does", "paper"])
        return
    if not source:
        raise InputError("Name what to serve: modelkeep guard serve MODEL, or a .toml file with settings.")
    from_file = source.endswith(".toml")
    given: dict[str, Any] = read_toml(Path(source)) if from_file else {"model": {"path": source, "name": _name(source)}}
    if defence is not None:
        given["defence"] = {"name": defence}
    for key, value in given_settings(context).items():
        # The file's own folder is where relative paths of the file start, not those of the command line.
        given.setdefault("defence", {"name": DEFAULT_DEFENCE})[key] = (
            value.absolute() if isinstance(value, Path) else value
        )
    for section, key, value in (
        ("server", "host", host),
        ("server", "port", port),
        ("server", "grpc_port", grpc_port),
        ("model", "name", name),
        *(("model", key, value) for key, value in _describe(options).items()),
        ("store", "url", store),
        ("principals", "open", anyone),
    ):
        if value is not None:
            given.setdefault(section, {})[key] = value
    folder = Path(source).resolve().parent if from_file else Path()
    if not from_file:
        _give_secret(given)
    plan = make_plan(parse_config(given, source if from_file else "The command line", folder))

    def ready(service: Service) -> None:
        _show(_summary(plan), as_json)
        if not as_json:
            if not service.principals.open and not service.principals.store.principals():
                typer.secho("There is no key yet. Make one with: modelkeep guard keys add NAME", fg="yellow")
            typer.echo("Ready. Ctrl-C finishes what is under way, and ends.")

    run(plan, ready)


def _give_secret(given: dict[str, Any]) -> None:
    """A secret for a model that is served without a file of settings: beside the store, and kept from then on."""
    from modelkeep.core.errors import InputError
    from modelkeep.core.setting_files import make_secret
    from modelkeep.guard.gateway.config import DEFAULT_DEFENCE, StoreTable
    from modelkeep.guard.gateway.defence_table import defence_table

    table = given.setdefault("defence", {"name": DEFAULT_DEFENCE})
    try:
        takes = "secret_file" in defence_table(str(table["name"])).model_fields
    except InputError:  # an unknown guard, which is refused with all other errors
        return
    if not takes or "secret_file" in table:
        return
    scheme, _, place = str(given.get("store", {}).get("url", StoreTable().url)).partition(":///")
    path = Path(place if scheme == "sqlite" and place else "modelkeep-guard.sqlite3").with_suffix(".secret").absolute()
    if make_secret(path):
        typer.echo(f"Made a secret in {path}, so that no answer is clean. Keep it with the store.", err=True)
    table["secret_file"] = path


def _describe(options: ModelOptions) -> dict[str, Any]:
    """What was said about the model, as settings; of paths, where they are from everywhere."""
    said = options.said()
    told: dict[str, Any] = {
        "weights": said.weights,
        "describe": options.describe,
        "processor": said.processor,
        "arguments": said.arguments,
        "classes": said.classes,
        "input_shape": said.input_shape,
        "layout": said.layout,
        "mean": said.mean,
        "std": said.std,
        "bounds": said.bounds,
        "device": said.device,
    }
    return {key: value.absolute() if isinstance(value, Path) else value for key, value in told.items()}


def _name(source: str) -> str:
    """The name of a model that has none: that of its file or factory."""
    stem = source.rpartition(":")[2] if ":" in source else Path(source).stem
    return re.sub(r"[^A-Za-z0-9_.-]", "-", stem) or "model"


def _summary(plan: Plan) -> dict[str, Any]:
    """What is served, where, and behind what."""
    from modelkeep.guard.gateway.clean_answers import warn_of_clean_answers

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
        "keys": "not needed" if config.principals.open else "needed",
        "warnings": list(warn_of_clean_answers(plan)),
    }


def _address(config: Config) -> str:
    scheme = "http" if config.server.tls_certificate is None else "https"
    host = f"[{config.server.host}]" if ":" in config.server.host else config.server.host
    return f"{scheme}://{host}:{config.server.port}"


def _show(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary))
        return
    shape = "×".join(map(str, summary["input"]["shape"]))
    classes = summary["output"]["classes"]
    typer.echo(f"model    {summary['model']} version {summary['version']} from {summary['source']}")
    typer.echo(f"takes    {summary['input']['name']}: {summary['input']['datatype']} {shape}")
    typer.echo(f"gives    {summary['output']['name']}: {classes} classes, guarded by {summary['defence']}")
    typer.echo(f"budget   at most {summary['epsilon']:g} from the prediction in ℓ1")
    typer.echo(f"epoch    {summary['epoch']}")
    typer.echo(f"store    {summary['store']}")
    typer.echo(f"keys     {summary['keys']}")
    typer.echo(f"REST     {summary['rest']}/v2/models/{summary['model']}/infer")
    if summary["grpc"] is not None:
        typer.echo(f"gRPC     {summary['grpc']}")
    for warning in summary["warnings"]:
        typer.secho(f"Warning: {warning}", fg="yellow")
