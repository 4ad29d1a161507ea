"""What the verbs that look at one model share: which model, what describes it, which data, from which seed."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from modelkeep.cli.checks import check_device

if TYPE_CHECKING:
    from modelkeep import Data, Model
    from modelkeep.core.encoder import Encoder
    from modelkeep.core.tokenizer import Tokenizer

ModelSource = Annotated[
    str,
    typer.Argument(help="A .safetensors, .pt2 or .onnx file, package.module:factory, efficientnet-lite0 or resnet50."),
]
DataSource = Annotated[
    str, typer.Option("--data", help="A built-in set, or your .npz, .csv, .parquet or image folder.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same figures.")]

_MODEL = "What describes the model"
_TABLE = "What describes a table"
Weights = Annotated[Path | None, typer.Option(help="The safetensors file for a factory.", rich_help_panel=_MODEL)]
Device = Annotated[str, typer.Option(help="Where to run: cpu (the default), cuda, cuda:1 …", callback=check_device)]
Label = Annotated[str, typer.Option(help="The column with the labels; 'label' by default.")]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What a user can say about a model and its data beside their names. `with_model_options` makes options of it."""

    weights: Weights = None
    classes: Annotated[
        str | None,
        typer.Option(
            help="Their names: cat,dog, or how many, or a text file with a line each.", rich_help_panel=_MODEL
        ),
    ] = None
    input_shape: Annotated[
        str | None, typer.Option(help="Such as 3,32,32; your pictures are scaled to it.", rich_help_panel=_MODEL)
    ] = None
    mean: Annotated[
        str | None, typer.Option(help="What the model subtracts, per channel: 0.49,0.46,0.41.", rich_help_panel=_MODEL)
    ] = None
    std: Annotated[str | None, typer.Option(help="What it then divides by.", rich_help_panel=_MODEL)] = None
    bounds: Annotated[
        str | None, typer.Option(help="The range of an input's values: 0,1; or none.", rich_help_panel=_MODEL)
    ] = None
    arguments: Annotated[
        str | None, typer.Option(help='Of the factory, as JSON: {"width": 64}.', rich_help_panel=_MODEL)
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            help="Where to run: cpu (the default), cuda, cuda:1 …", callback=check_device, rich_help_panel=_MODEL
        ),
    ] = None
    label: Annotated[
        str | None, typer.Option(help="The column with the labels; 'label' by default.", rich_help_panel=_TABLE)
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; repeat it for more.", rich_help_panel=_TABLE)
    ] = None
    missing: Annotated[
        Literal["refuse", "indicate", "fill", "drop"] | None,
        typer.Option(help="What to do with missing values; they are refused by default.", rich_help_panel=_TABLE),
    ] = None
    positive: Annotated[
        str | None,
        typer.Option(help="The label that is class 1; all others are class 0.", rich_help_panel=_TABLE),
    ] = None
    text: Annotated[
        str | None, typer.Option(help="The column with the texts, of a .csv or .jsonl file.", rich_help_panel=_TABLE)
    ] = None
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Its JSON file; by default the one beside the model.", rich_help_panel=_MODEL),
    ] = None

    def card(self) -> dict[str, Any]:
        """What was said about the model, as fields of its card in JSON."""
        from modelkeep.core.errors import InputError

        said: dict[str, Any] = {}
        if self.classes is not None:
            said["classes"] = _classes(self.classes)
        if self.input_shape is not None:
            said["input_shape"] = self.shape
        if (self.mean is None) != (self.std is None):
            raise InputError("--mean and --std belong together: give both, or neither.")
        if self.mean is not None and self.std is not None:
            said["preprocessing"] = {"mean": _numbers("--mean", self.mean), "std": _numbers("--std", self.std)}
        if self.bounds is not None:
            said["bounds"] = None if self.bounds == "none" else _numbers("--bounds", self.bounds, 2)
        if self.arguments is not None:
            said["arguments"] = _arguments(self.arguments)
        return said

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of an input, where it was said."""
        if self.input_shape is None:
            return None
        sizes = _numbers("--input-shape", self.input_shape, example="3,32,32")
        return tuple(int(size) for size in sizes)

    @property
    def place(self) -> str:
        """The device."""
        return self.device or "cpu"

    def find_tokenizer(self, model: str) -> Tokenizer | None:
        """The tokenizer that was named, else the one beside the model's file; None where there is none."""
        from modelkeep.zoo.tokenizers import read_tokenizer

        if self.tokenizer is not None:
            return read_tokenizer(self.tokenizer)
        for file in (self.weights, Path(model)):
            for place in (
                () if file is None else (file.with_suffix(".tokenizer.json"), file.with_name("tokenizer.json"))
            ):
                if place.is_file():
                    return read_tokenizer(place)
        return None

    def find_encoder(self, model: str) -> Encoder | None:
        """What made the numbers of the table that the model was trained on, where it stands beside the model's file."""
        from modelkeep.core.encoder import read_encoder

        places = [file.with_suffix(".encoder.json") for file in (self.weights, Path(model)) if file is not None]
        return next((read_encoder(place) for place in places if place.is_file()), None)

    def open(
        self,
        source: str,
        *,
        part: Literal["train", "test"],
        shape: tuple[int, ...] | None = None,
        tokenizer: Tokenizer | None = None,
        encoder: Encoder | None = None,
    ) -> Data:
        """Data that the user named, read as these options say, by the model's tokenizer or encoder."""
        from modelkeep.core.errors import InputError
        from modelkeep.zoo import datasets

        found = datasets.open(
            source,
            label=self.label or "label",
            ignore=self.ignore or (),
            missing=self.missing or "refuse",
            positive=self.positive,
            encoder=encoder,
            part=part,
            shape=shape,
            text=self.text,
            tokenizer=tokenizer,
        )
        if found.tokenizer is not None and tokenizer is None:
            raise InputError(
                f"'{source}' holds texts, and the model has no tokenizer beside it (MODEL.tokenizer.json or "
                "tokenizer.json). Name the one that it was trained with: --tokenizer FILE."
            )
        return found


def with_model_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for each field of `ModelOptions` in place of its parameter `options`."""
    signature = inspect.signature(verb, eval_str=True)
    kinds = get_type_hints(ModelOptions, include_extras=True)
    names = [field.name for field in fields(ModelOptions)]
    made = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kinds[field.name])
        for field in fields(ModelOptions)
    ]

    @functools.wraps(verb)
    def filled(**given: Any) -> None:
        options = ModelOptions(**{name: given.pop(name) for name in names})
        verb(**given, options=options)

    own = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in signature.parameters.values()
        if each.name != "options"
    ]
    filled.__signature__ = signature.replace(parameters=[*own, *made])  # type: ignore[attr-defined]
    filled.__annotations__ = {each.name: each.annotation for each in (*own, *made)}
    return filled


def model_and_data(model: str, data: str, options: ModelOptions) -> tuple[Model, Data]:
    """The model and the data (of a built-in set: its test part) that the user named."""
    from modelkeep import Model
    from modelkeep.zoo import pretrained

    if model in pretrained.names():
        ready = pretrained.load(model, device=options.place)
        return ready, options.open(data, part="test", shape=ready.input_shape)
    if ":" in model:
        # Last, and only for a factory that the user named: a file in this folder must not pass for a library.
        sys.path.append(str(Path.cwd()))
    said = options.card()
    examined = options.open(
        data,
        part="test",
        shape=options.shape,
        tokenizer=options.find_tokenizer(model),
        encoder=options.find_encoder(model),
    )
    loaded = Model.load(model, weights=options.weights, like=examined, device=options.place, **said)
    if examined.input_shape != loaded.input_shape:
        loaded.require_fit(examined)  # says what does not fit; the classes are the verb's matter
    return loaded, examined


def training_data(data: str, train: str | None, options: ModelOptions, why: str, examined: Data | None = None) -> Data:
    """What is learned or chosen on: never the data that the outcome is measured on.

    Its texts and tables become numbers in the same way as those of the `examined` data.
    """
    from modelkeep.core.errors import InputError

    if train is None and Path(data).expanduser().exists():
        raise InputError(f"{why} the training data: name it with --train.")
    return options.open(
        data if train is None else train,
        part="train",
        tokenizer=None if examined is None else examined.tokenizer,
        encoder=None if examined is None else examined.encoder,
    )


def save_beside(model: Path, data: Data) -> None:
    """Keep what made the numbers of a table beside a model that was trained on it, so that they mean the same again."""
    from modelkeep.core.encoder import write_encoder

    if data.encoder is not None:
        write_encoder(data.encoder, model)


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


def _classes(text: str) -> tuple[str, ...] | int:
    path = Path(text).expanduser()
    if path.is_file():
        return tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return int(text) if text.isdecimal() else tuple(name.strip() for name in text.split(","))


def _numbers(option: str, text: str, count: int | None = None, example: str = "0.5,0.5,0.5") -> tuple[float, ...]:
    from modelkeep.core.errors import InputError

    try:
        found = tuple(float(number) for number in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} must be numbers with commas between, such as {example}. Got '{text}'.") from error
    if count is not None and len(found) != count:
        raise InputError(f"{option} must be {count} numbers with a comma between. Got '{text}'.")
    return found


def _arguments(text: str) -> dict[str, Any]:
    from modelkeep.core.errors import InputError

    try:
        found = json.loads(text)
    except ValueError as error:
        raise InputError(f"--arguments must be JSON, such as {{\"width\": 64}}. Got '{text}': {error}.") from error
    if not isinstance(found, dict):
        raise InputError(f"--arguments must be a JSON object, such as {{\"width\": 64}}. Got '{text}'.")
    return found
