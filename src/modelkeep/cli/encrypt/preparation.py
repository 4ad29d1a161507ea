"""What `plan` and `serve` share: the model that the user named, and its plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from modelkeep.cli.model_options import ModelOptions, model_and_data, training_data

if TYPE_CHECKING:
    from modelkeep import Data, Model

Packing = Annotated[
    Literal["single", "packed"] | None,
    typer.Option(help="One sample per request, or as many as a ciphertext has slots; else what --samples needs."),
]
Samples = Annotated[int, typer.Option(min=1, help="How many inputs a client has at a time; decides the packing.")]
Tolerance = Annotated[float, typer.Option(help="The largest error of a logit that is accepted.")]
SomeData = Annotated[
    str | None, typer.Option("--data", help="A built-in set, or your .npz, .csv, .parquet or image folder.")
]


def load(model: str, data: str | None, options: ModelOptions) -> tuple[Model, Data | None]:
    """The model, and the data if some are named."""
    from modelkeep import Model

    if data is not None:
        return model_and_data(model, data, options)
    if ":" in model:
        sys.path.append(str(Path.cwd()))  # last: a file in this folder must not pass for a library
    said = options.description(model)
    loaded = Model.load(model, weights=said.weights, describe=options.describe, device=said.device, **said.card())
    return loaded, None


def replace_activations(
    model: Model,
    source: str,
    data: str | None,
    train: str | None,
    held_out: Data | None,
    options: ModelOptions,
    seed: int,
) -> Model:
    """The model with quadratics in place of its activations, fine-tuned; prints what that does to the accuracy."""
    from rich.console import Console

    from modelkeep.core.errors import InputError
    from modelkeep.encrypt.polynomial import make_polynomial

    if data is None or held_out is None:
        raise InputError("--replace trains the model again and measures its accuracy: name the data with --data.")
    known = training_data(source, data, train, options, held_out, "--replace needs")
    made, result = make_polynomial(model, known, held_out, seed=seed)
    Console(stderr=True).print(result)
    return made
