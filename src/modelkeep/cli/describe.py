"""`modelkeep describe`: what is known about a model, and a file for what its own file does not say."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelkeep.cli.model_options import ModelOptions, ModelSource, with_model_options

if TYPE_CHECKING:
    from modelkeep import Model
    from modelkeep.core.formats import Reading
    from modelkeep.core.model_file import Description

_ITEMS = ("input_shape", "inputs", "layout", "classes", "preprocessing", "bounds", "architecture", "arguments")
_ASKED = "your answer"


@with_model_options
def describe(
    model: ModelSource,
    *,
    options: ModelOptions,
    out: Annotated[
        Path | None, typer.Option(help="The file for the description; else NAME.toml beside the model.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Describe a model: what is known about it and from where, does it run, and what is missing?

    What its own file does not say is asked for in a terminal, else named as an option, and is written to NAME.toml
    beside the model, where every verb finds it. Examples:

    * `modelkeep describe model.onnx`

    * `modelkeep describe model.onnx --classes names.txt --mean 0.49,0.46,0.41 --std 0.23,0.22,0.22`

    * `modelkeep describe mine:network --weights mine.safetensors --input-shape 3,64,64 --classes cat,dog`
    """
    from modelkeep import Model
    from modelkeep.cli.checks import check_out_file
    from modelkeep.core import formats
    from modelkeep.core.formats.reading import COUNTED
    from modelkeep.core.model_file import find_description
    from modelkeep.zoo import pretrained

    check_out_file(out)
    if model in pretrained.names():
        typer.echo(f"{model} comes with ModelKeep, which knows all about it: {pretrained.load(model)}")
        return
    if ":" in model:
        sys.path.append(str(Path.cwd()))  # last: a file in this folder must not pass for a library
    said = options.description(model)
    read = formats.read(model, weights=options.weights, card=options.said().card(), describe=options.describe)
    read, said = _complete(read, said, ask=sys.stdin.isatty() and not as_json)
    loaded = Model.of_reading(read, said.device)
    if read.origins["classes"] == COUNTED:
        said = replace(said, classes=read.known["classes"])
    place = out or options.describe or find_description(model) or _place(model, said)
    written = said.write(place) if said.says_anything else None
    if as_json:
        typer.echo(json.dumps(_record(read, loaded, written), ensure_ascii=False))
        return
    _show(read, loaded, written, model)


def _complete(read: Reading, said: Description, *, ask: bool) -> tuple[Reading, Description]:
    """What is still missing is counted, asked for, or named as an option."""
    from modelkeep.core.errors import InputError

    options = {"input_shape": "--input-shape 3,224,224", "classes": "--classes cat,dog"}
    for name in ("input_shape", "classes"):
        if name == "classes":
            read = read.count_classes()
        if name not in read.missing:
            continue
        if not ask:
            wanted = " ".join(options[each] for each in read.missing)
            raise InputError(f"'{read.source}' does not say everything about the model. Add, such as: {wanted}")
        text = typer.prompt(f"{name.replace('_', ' ')}, such as {options[name].split()[1]}")
        given = ModelOptions(**{name: text}).said()
        said = given.over(said)
        read = read.with_more(_ASKED, said.card())
    return read, said


def _place(model: str, said: Description) -> Path:
    path = Path(model)
    if path.is_dir():
        return path / "model.toml"
    if path.is_file():
        return path.with_suffix(".toml")
    # Not model.toml: that would describe every model in this folder.
    return said.weights.with_suffix(".toml") if said.weights is not None else Path(f"{model.rpartition(':')[2]}.toml")


def _record(read: Reading, model: Model, written: Path | None) -> dict[str, Any]:
    card = model.card.told()
    known = {
        name: {"value": card.get(name), "from": read.origins.get(name, "the default")}
        for name in _ITEMS
        if card.get(name)
    }
    return {
        "model": str(read.source),
        "known": known,
        "answers": list(model.logits(model.probe()).shape),
        "parameters": sum(weight.numel() for weight in model.module.parameters()),
        "warnings": list(model.warnings),
        "written": None if written is None else str(written),
    }


def _show(read: Reading, model: Model, written: Path | None, name: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = _record(read, model, written)
    table = Table("what", "is", "from")
    for item, told in found["known"].items():
        table.add_row(item.replace("_", " "), Text(_short(told["value"])), Text(told["from"]))
    if "bounds" not in found["known"]:
        table.add_row("bounds", "none", Text(read.origins.get("bounds", "the default")))
    console = Console(highlight=False)
    console.print(table)
    console.print(f"It runs: 2 inputs give {tuple(found['answers'])} logits. {found['parameters']:,} parameters.")
    for warning in found["warnings"]:
        console.print(Text(warning, style="red"))
    if written is None:
        console.print("Its own file says all of it: there is nothing to write.")
        return
    use = "" if Path(name).exists() or written.parent != Path() else f" --describe {written}"
    console.print(f"written: {written}", markup=False, soft_wrap=True)
    console.print(f"Go on: modelkeep audit {name}{use} --data DATA", markup=False, soft_wrap=True)


def _short(value: object) -> str:
    if isinstance(value, dict):
        parts = [f"{name} {_short(each)}" for name, each in value.items() if each not in ((), [], None)]
        text = "; ".join(parts) or "none"
    else:
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"
