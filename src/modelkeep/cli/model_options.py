"""What the verbs that look at one model share: which model, which data, where to write, from which seed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelkeep import Data, Model

ModelSource = Annotated[
    str, typer.Argument(help="A .safetensors, .pt2 or .onnx file, package.module:factory, or efficientnet-lite0.")
]
DataSource = Annotated[
    str, typer.Option("--data", help="A built-in set, or your .npz, .csv, .parquet or image folder.")
]
Weights = Annotated[Path | None, typer.Option(help="The safetensors file for a factory.")]
InputShape = Annotated[
    str | None, typer.Option(help="Such as 3,32,32, where the model does not say; scales your pictures.")
]
Label = Annotated[str, typer.Option(help="The column with the labels, in a table.")]
Device = Annotated[str, typer.Option(help="Where to run: cpu, cuda, cuda:1 …")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same figures.")]


def model_and_data(
    model: str, data: str, *, weights: Path | None, input_shape: str | None, label: str, device: str
) -> tuple[Model, Data]:
    """The model and the data (of a built-in set: its test part) that the user named."""
    from modelkeep import Model
    from modelkeep.zoo import datasets, pretrained

    if model in pretrained.names():
        ready = pretrained.load(model, device=device)
        return ready, datasets.open(data, label=label, part="test", shape=ready.input_shape)
    if ":" in model:
        # Last, and only for a factory that the user named: a file in this folder must not pass for a library.
        sys.path.append(str(Path.cwd()))
    shape = _shape(input_shape) if input_shape is not None else None
    known = {"input_shape": shape} if shape is not None else {}
    examined = datasets.open(data, label=label, part="test", shape=shape)
    return Model.load(model, weights=weights, like=examined, device=device, **known), examined


def training_data(data: str, train: str | None, label: str, why: str) -> Data:
    """What is learned or chosen on: never the data that the outcome is measured on."""
    from modelkeep.core.errors import InputError
    from modelkeep.zoo import datasets

    if train is not None:
        return datasets.open(train, label=label, part="train")
    if Path(data).expanduser().exists():
        raise InputError(f"{why} the training data: name it with --train.")
    return datasets.open(data, part="train")


def in_classes_of(model: Model, data: Data) -> tuple[Data, bool]:
    """The data with the model's classes, and whether its labels say anything.

    Explanations and attacks need no true labels, so the data may be pictures of some of the model's classes, or of
    none; then they bear the model's own answers.
    """
    from dataclasses import replace

    import torch

    if len(data.classes) >= len(model.classes) or data.input_shape != model.input_shape:
        return data, True  # what does not fit is refused where it is used
    if set(data.classes) <= set(model.classes):
        labels = torch.tensor([model.class_index(name) for name in data.classes])
        return replace(data, y=labels[data.y], classes=model.classes), True
    answers = torch.cat([model.predict(x).cpu() for x, _ in data.batches(64)])
    return replace(data, y=answers, classes=model.classes), False


def _shape(text: str) -> tuple[int, ...]:
    from modelkeep.core.errors import InputError

    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError as error:
        raise InputError(f"--input-shape must be sizes with commas between, such as 3,32,32. Got '{text}'.") from error
