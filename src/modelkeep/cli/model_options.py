"""What the verbs that look at one model share: which model, what describes it, which data, from which seed."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from shlex import quote, split
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_type_hints, overload

import typer

from modelkeep.cli.checks import check_device
from modelkeep.cli.tokenizer_files import find_tokenizer, read_own_tokenizer, write_tokenizer

if TYPE_CHECKING:
    from modelkeep import Data, Model
    from modelkeep.core.encoder import Encoder
    from modelkeep.core.model_file import Description
    from modelkeep.core.tokenizer import Tokenizer

ModelSource = Annotated[
    str,
    typer.Argument(
        help="A .safetensors, .pt2 or .onnx file, a folder of Hugging Face, package.module:factory, "
        "digits-cnn, efficientnet-lite0, resnet50 or minilm-reviews."
    ),
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


def _model_option(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=_MODEL)


def _table_option(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=_TABLE)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What a user can say about a model and its data beside their names. `with_model_options` makes options of it."""

    describe: Annotated[Path | None, _model_option("A file with all this; else NAME.toml or model.toml.")] = None
    weights: Weights = None
    arguments: Annotated[str | None, _model_option('Of the factory, as JSON: {"width": 64}.')] = None
    classes: Annotated[
        str | None, _model_option("Their names (cat,dog), their number, or a text file with a line each.")
    ] = None
    input_shape: Annotated[
        str | None, _model_option("Such as 3,32,32, as the model takes it; your pictures are scaled to it.")
    ] = None
    layout: Annotated[
        Literal["channels-first", "channels-last"] | None,
        _model_option("How the model takes pictures; channels-first by default."),
    ] = None
    mean: Annotated[str | None, _model_option("What the model subtracts, per channel: 0.49,0.46,0.41.")] = None
    std: Annotated[str | None, _model_option("What it then divides by.")] = None
    processor: Annotated[
        Path | None, _model_option("A Hugging Face preprocessor_config.json, in place of shape, mean and std.")
    ] = None
    bounds: Annotated[str | None, _model_option("The range of an input's values: 0,1; or none.")] = None
    tokenizer: Annotated[
        Path | None, _model_option("The JSON file of a text model's tokenizer; by default the one beside it.")
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            help="Where to run: cpu (the default), cuda, cuda:1 …", callback=check_device, rich_help_panel=_MODEL
        ),
    ] = None
    label: Annotated[str | None, _table_option("The column with the labels; 'label' by default.")] = None
    ignore: Annotated[list[str] | None, _table_option("A column to leave out; repeat it for more.")] = None
    missing: Annotated[
        Literal["refuse", "indicate", "fill", "drop"] | None,
        _table_option("What to do with missing values; they are refused by default."),
    ] = None
    positive: Annotated[str | None, _table_option("The label that is class 1; all others are class 0.")] = None
    text: Annotated[str | None, _table_option("The column with the texts, of a .csv or .jsonl file.")] = None

    def description(self, model: str) -> Description:
        """What was said here, and what the file beside the model, or named with --describe, says else."""
        from modelkeep.core.model_file import Description, find_description

        place = self.describe or find_description(model) or (self.weights and find_description(self.weights))
        return self.said() if place is None else self.said().over(Description.read(place))

    def repeat(self) -> str:
        """What was said here as options of a command.

        >>> ModelOptions(classes="cat,dog", ignore=["id", "the name"]).repeat()
        "--classes cat,dog --ignore id --ignore 'the name'"
        """
        told = []
        for each in fields(self):
            given = getattr(self, each.name)
            values = given if isinstance(given, list) else [] if given is None else [given]
            told += [f"--{each.name.replace('_', '-')} {quote(str(value))}" for value in values]
        return " ".join(told)

    @classmethod
    def read(cls, options: str, *, only_data: bool = False) -> Self:
        """What the options that `repeat` gave say; with `only_data` without what they say about the model.

        >>> ModelOptions.read("--classes cat,dog --label kind --ignore id --ignore name", only_data=True).repeat()
        '--label kind --ignore id --ignore name'
        """
        words = split(options)
        given: dict[str, Any] = {}
        for option, value in zip(words[::2], words[1::2], strict=True):
            name = option.removeprefix("--").replace("-", "_")
            if only_data and name not in (*_OF_TABLES, "device"):
                continue
            if name == "ignore":
                given.setdefault(name, []).append(value)
            else:
                given[name] = Path(value) if name in _PATHS else value
        return cls(**given)

    def said(self) -> Description:
        """What was said here."""
        from modelkeep.core.errors import InputError
        from modelkeep.core.model_file import Description

        bounds = None if self.bounds in (None, "none") else _numbers("--bounds", self.bounds)
        if bounds is not None and len(bounds) != 2:
            raise InputError(f"--bounds must be two numbers with a comma between, such as 0,1. Got '{self.bounds}'.")
        if (self.mean is None) != (self.std is None):
            raise InputError("--mean and --std belong together: give both, or neither.")
        shape = _numbers("--input-shape", self.input_shape, "3,32,32")
        return Description(
            weights=self.weights,
            arguments=_arguments(self.arguments),
            classes=_classes(self.classes),
            input_shape=None if shape is None else tuple(int(size) for size in shape),
            layout=self.layout,
            mean=_numbers("--mean", self.mean),
            std=_numbers("--std", self.std),
            processor=self.processor,
            bounds="none" if self.bounds == "none" else bounds,
            tokenizer=self.tokenizer,
            device=self.device,
            label=self.label,
            positive=self.positive,
            text=self.text,
            ignore=tuple(self.ignore) if self.ignore else None,
            missing=self.missing,
        )


_PATHS = ("describe", "weights", "processor", "tokenizer")
_OF_TABLES = ("label", "ignore", "missing", "positive", "text")


def with_model_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for each field of `ModelOptions` in place of its parameter `options`."""
    return _with_options(verb, [field.name for field in fields(ModelOptions)])


def without_data_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The same for a verb that reads no data: what describes a table or a text is no option of it."""
    unused = (*_OF_TABLES, "tokenizer")
    return _with_options(verb, [field.name for field in fields(ModelOptions) if field.name not in unused])


def _with_options(verb: Callable[..., None], names: Sequence[str]) -> Callable[..., None]:
    signature = inspect.signature(verb, eval_str=True)
    kinds = get_type_hints(ModelOptions, include_extras=True)
    made = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kinds[name]) for name in names
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


def model_and_data(model: str, data: str, options: ModelOptions, train: str | None = None) -> tuple[Model, Data]:
    """The model and the data (of a built-in set: its test part) that the user named.

    Where the model brings no encoder of tables, that of the training data counts, if they are given: values that fill
    gaps must not come from the data that the outcome is measured on.
    """
    from modelkeep import Model
    from modelkeep.core import formats
    from modelkeep.zoo import pretrained

    said = options.description(model)
    if model in pretrained.names():
        ready = pretrained.load(model, device=said.device or "cpu")
        tokenizer = pretrained.load_tokenizer(model)
        return ready, open_data(data, said, part="test", shape=ready.input_shape, tokenizer=tokenizer)
    if ":" in model:
        # Last, and only for a factory that the user named: a file in this folder must not pass for a library.
        sys.path.append(str(Path.cwd()))
    card = said.card()
    shape, place = card.get("input_shape"), find_tokenizer(model, said)
    own: dict[str, Any] = {}
    if place is not None or (shape is None and _are_pictures(data)):
        # What the data must be made to fit, the model itself says.
        own = formats.read(model, weights=said.weights, card=card, describe=options.describe).known
    tokenizer = None if place is None else read_own_tokenizer(place, own)
    examined = open_data(
        data,
        said,
        part="test",
        shape=shape or own.get("input_shape"),
        tokenizer=tokenizer,
        encoder=_find_encoder(model, said) or learn_encoder(train, said),
    )
    loaded = Model.load(
        model, weights=said.weights, like=examined, describe=options.describe, device=said.device, **card
    )
    if examined.input_shape != loaded.input_shape:
        loaded.require_fit(examined)  # says what does not fit; the classes are the verb's matter
    for warning in loaded.warnings:
        typer.secho(warning, fg="red", err=True)
    return loaded, examined


def open_data(
    source: str,
    said: Description,
    *,
    part: Literal["train", "test"],
    shape: tuple[int, ...] | None = None,
    tokenizer: Tokenizer | None = None,
    encoder: Encoder | None = None,
) -> Data:
    """Data that the user named, read as the description says, by the model's tokenizer or encoder."""
    from modelkeep.core.errors import InputError
    from modelkeep.zoo import datasets

    found = datasets.open(
        source,
        label=said.label or "label",
        ignore=said.ignore or (),
        missing=said.missing or "refuse",
        positive=said.positive,
        encoder=encoder,
        part=part,
        shape=shape,
        text=said.text,
        tokenizer=tokenizer,
    )
    if found.tokenizer is not None and tokenizer is None:
        raise InputError(
            f"'{source}' holds texts, and the model has no tokenizer beside it (MODEL.tokenizer.json or "
            "tokenizer.json). Name the one that it was trained with: --tokenizer FILE."
        )
    return found


def training_data(model: str, data: str, train: str | None, options: ModelOptions, like: Data, why: str) -> Data:
    """What is learned or chosen on: never the data that the outcome is measured on. It is read `like` those."""
    from modelkeep.core.errors import InputError

    if train is None and Path(data).expanduser().exists():
        raise InputError(f"{why} the training data: name it with --train.")
    source = data if train is None else train
    return read_like(like, source, options.description(model), part="train")


def read_like(like: Data, source: str, said: Description, *, part: Literal["train", "test"]) -> Data:
    """Further data for the model of other data: pictures of the same shape, texts and tables as the same numbers."""
    shape = like.input_shape if len(like.input_shape) == 3 else None
    return open_data(source, said, part=part, shape=shape, tokenizer=like.tokenizer, encoder=like.encoder)


def save_beside(model: Path, data: Data) -> None:
    """Keep what made numbers of a table or a text beside a model of such data, so that they mean the same again."""
    from modelkeep.core.encoder import write_encoder

    if data.encoder is not None:
        write_encoder(data.encoder, model)
    if data.tokenizer is not None:
        write_tokenizer(data.tokenizer.to_json(), model)


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


def learn_encoder(train: str | None, said: Description) -> Encoder | None:
    """What makes numbers of the training table, if there is one."""
    if train is None or said.text is not None or Path(train).suffix.lower() not in (".csv", ".parquet"):
        return None
    return open_data(train, said, part="train").encoder


def _find_encoder(model: str, said: Description) -> Encoder | None:
    """What made the numbers of the table that the model was trained on, where it stands beside the model's file."""
    from modelkeep.core.encoder import read_encoder

    places = [file.with_suffix(".encoder.json") for file in (said.weights, Path(model)) if file is not None]
    return next((read_encoder(place) for place in places if place.is_file()), None)


def _are_pictures(data: str) -> bool:
    from modelkeep.zoo.datasets.pictures import PICTURES

    path = Path(data).expanduser()
    return path.is_dir() or path.suffix.lower() in PICTURES


def _classes(text: str | None) -> tuple[str, ...] | int | None:
    from modelkeep.core.model_file import read_names

    if text is None:
        return None
    if Path(text).expanduser().is_file():
        return read_names(Path(text).expanduser())
    return int(text) if text.isdecimal() else tuple(name.strip() for name in text.split(","))


@overload
def _numbers(option: str, text: str, example: str = ...) -> tuple[float, ...]: ...
@overload
def _numbers(option: str, text: None, example: str = ...) -> None: ...
def _numbers(option: str, text: str | None, example: str = "0.5,0.5,0.5") -> tuple[float, ...] | None:
    from modelkeep.core.errors import InputError

    try:
        return None if text is None else tuple(float(number) for number in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} must be numbers with commas between, such as {example}. Got '{text}'.") from error


def _arguments(text: str | None) -> dict[str, Any] | None:
    from modelkeep.core.errors import InputError

    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InputError(f"--arguments must be JSON, such as {{\"width\": 64}}. Got '{text}': {error}.") from error
    if not isinstance(found, dict):
        raise InputError(f"--arguments must be a JSON object, such as {{\"width\": 64}}. Got '{text}'.")
    return found
