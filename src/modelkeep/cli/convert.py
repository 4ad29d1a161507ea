"""`modelkeep convert`: a model in another form, as a file that every verb reads."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.model_options import ModelOptions, with_model_options
from modelkeep.cli.tokenizer_files import find_tokenizer, write_tokenizer

if TYPE_CHECKING:
    from modelkeep import Model
    from modelkeep.core.model_file import Description


@with_model_options
def convert(
    source: Annotated[
        str, typer.Argument(help="A state dict (.pt, .pth, .ckpt, .bin), a folder of Hugging Face, or timm/NAME.")
    ],
    *,
    options: ModelOptions,
    factory: Annotated[
        str | None, typer.Option(help="What builds the network of a state dict: package.module:factory.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file for the model, .safetensors or .pt2; else beside the source.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the summary.")] = False,
) -> None:
    """Convert a model once, so that every verb reads it. No code of the source is run.

    Of a .pt, torch reads tensors only (`weights_only`).

    A pickled module, a TorchScript program and a pickled estimator cannot be converted without running them: for each,
    the lines are printed that its owner runs where it was made. Examples:

    * `modelkeep convert weights.pt --factory mine:network --classes cat,dog --input-shape 3,64,64`

    * `modelkeep convert vit-folder --out vit.safetensors`

    * `modelkeep convert timm/resnet18.a1_in1k`

    * `modelkeep convert model.safetensors --out model.pt2`
    """
    from modelkeep import Model
    from modelkeep.cli.checks import check_out_file
    from modelkeep.core.conversion import read_foreign, write_pt2
    from modelkeep.core.errors import InputError

    check_out_file(out)
    target = out if out is not None else _beside(source)
    if target.suffix not in (".safetensors", ".pt2"):
        raise InputError(f"A model is written as a .safetensors or .pt2 file. Got --out {target}.")
    sys.path.append(str(Path.cwd()))  # last: a file in this folder must not pass for a library
    said = options.description(source)
    read = read_foreign(source, factory, said.card(), said.weights).count_classes()
    model = Model.of_reading(read, said.device)
    beside: Path | None = None
    if target.suffix == ".pt2":
        write_pt2(model, target)
        beside = describe_model(model, said).write(target.with_suffix(".toml"))
    else:
        model.save(target)
    tokenizer = _copy_tokenizer(source, said, target) if model.nest is not None else None
    if as_json:
        written = [str(path) for path in (target, beside, tokenizer) if path is not None]
        typer.echo(json.dumps({"written": written, "card": model.card.told()}, ensure_ascii=False))
        return
    typer.echo(f"{model!r}\nwritten: {target}" + (f" and {beside}, which names the classes" if beside else ""))
    if tokenizer is not None:
        typer.echo(f"its tokenizer: {tokenizer}")
    typer.echo(f"Try it: modelkeep audit {_named(model, target, factory)} --data DATA")


def _copy_tokenizer(source: str, said: Description, target: Path) -> Path | None:
    """A text model's tokenizer, as it is, beside the converted model: the same word stays the same number."""
    found = find_tokenizer(source, said)
    place = None if found is None else found / "tokenizer.json" if found.is_dir() else found
    return None if place is None else write_tokenizer(place.read_text(encoding="utf-8"), target)


def _beside(source: str) -> Path:
    name = Path(source).name
    known = (".pt", ".pth", ".bin", ".ckpt", ".model", ".pt2", ".onnx")
    stem = Path(source).stem if Path(source).suffix in known else name
    return (Path() if source.startswith("timm/") else Path(source).parent) / f"{stem}.safetensors"


def describe_model(model: Model, said: Description) -> Description:
    """What a .pt2 file does not hold."""
    from dataclasses import replace

    card = model.card
    return replace(
        said,
        factory=None,
        arguments=None,
        weights=None,
        processor=None,
        classes=card.classes,
        input_shape=None,
        layout=card.preprocessing.layout if card.preprocessing.layout != "channels-first" else None,
        mean=card.preprocessing.mean or None,
        std=card.preprocessing.std or None,
        bounds=card.bounds if card.bounds is not None else "none",
    )


def _named(model: Model, target: Path, factory: str | None) -> str:
    """How the other verbs are given the converted model."""
    from modelkeep.core.formats.factory import may_be_named

    if target.suffix == ".pt2" or factory is None or may_be_named(factory):
        return str(target)
    return f"{factory} --weights {target}"
