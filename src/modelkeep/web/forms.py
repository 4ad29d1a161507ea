"""Forms: what a command of the command line asks for, as a page shows it, and the line that a filled form makes.

Nothing here knows a method: the command line reads its own options and the methods' declarations (`CommandLine`), so a
method that is added appears by itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from modelkeep.audit.sources import Sources
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, did_you_mean
from modelkeep.core.model import Model

Kind = Literal["text", "number", "integer", "flag", "switch", "choice"]
Values = Mapping[str, str | bool | Sequence[str]]


@dataclass(frozen=True)
class Field:
    """One thing that a command asks for.

    `option` is empty for an argument. A flag is off unless it is given; a switch has three states: on (`option`), off
    (`off`) and what the method takes by itself. `suggestions` are values that are known, beside which others may be
    right.
    """

    name: str
    option: str
    kind: Kind
    help: str
    default: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    off: str = ""
    least: float | None = None
    most: float | None = None
    many: bool = False
    group: str = ""
    chooses: bool = False  # further fields depend on it: it names a method


@dataclass(frozen=True)
class Form:
    """A command with all that it asks for."""

    verb: str
    help: str
    fields: tuple[Field, ...]


class CommandLine(Protocol):
    """What the application asks of the command line, which stands above it."""

    @property
    def verbs(self) -> Mapping[str, str]:
        """The commands that may be run from a form, each with what it does."""

    def form(self, verb: str, chosen: Mapping[str, str]) -> Form:
        """The form of a command, with the settings of the methods that are chosen (`{"method": "pgd"}`)."""

    def check(self, words: Sequence[str]) -> None:
        """Refuse a line that the command line would refuse before it begins to work."""

    def open(self, sources: Sources) -> tuple[Model, Data]:
        """The model and the data of these names."""

    def read_training(self, sources: Sources, like: Data) -> Data:
        """The training data, read like those that are open; refused where none are known."""


def make_words(form: Form, values: Values) -> list[str]:
    """The words after `modelkeep`; what is the default anyway is left out.

    >>> form = Form("attack", "", (Field("model", "", "text", ""), Field("steps", "--steps", "integer", "", "40")))
    >>> make_words(form, {"model": "m.onnx", "steps": "40"}), make_words(form, {"model": "m.onnx", "steps": "9"})
    (['attack', 'm.onnx'], ['attack', 'm.onnx', '--steps', '9'])
    """
    known = {field.name for field in form.fields}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InputError(f"`modelkeep {form.verb}` takes no {', '.join(unknown)} here.")
    arguments = [_argument(field, values[field.name]) for field in form.fields if not field.option]
    options = [word for field in form.fields if field.option for word in _option(field, values.get(field.name, ""))]
    return [*form.verb.split(), *(word for word in arguments if word), *options]


def show_line(words: Sequence[str]) -> str:
    """The command as a shell takes it."""
    return shlex.join(["modelkeep", *words])


def _argument(field: Field, value: object) -> str:
    text = str(value).strip()
    if field.choices and text and text not in field.choices:
        meant = did_you_mean(text, field.choices)
        raise InputError(f"There is no {field.name} '{text}'.{meant} See the list.")
    if text.startswith("-"):
        raise InputError(f"{field.name.upper()} must be a name or a path. Got '{text}', which is an option.")
    return text


def _option(field: Field, value: str | bool | Sequence[str]) -> list[str]:
    if field.kind == "flag":
        on = value is True or value == "on"
        return [field.option] if on else []
    if field.kind == "switch":
        return {"on": [field.option], "off": [field.off]}.get(str(value), [])
    texts = [value] if isinstance(value, str) else [str(each) for each in value] if isinstance(value, Sequence) else []
    if field.many:
        texts = [part for text in texts for part in text.split()]
    return [
        word
        for text in texts
        if text.strip() and text.strip() != field.default
        for word in (field.option, text.strip())
    ]
