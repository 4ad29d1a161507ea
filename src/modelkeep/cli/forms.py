"""The forms of `modelkeep ui`, read from the options of the verbs and the declarations of the methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cached_property
from math import isfinite
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer

from modelkeep.audit.sources import Sources
from modelkeep.cli.method_options import CHOSEN, prepare_settings
from modelkeep.cli.model_options import ModelOptions, model_and_data, training_data
from modelkeep.cli.usage import UsageError, explain_usage
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import Option, options_of
from modelkeep.core.model import Model
from modelkeep.core.registry import declarations
from modelkeep.web.forms import Field, Form, Kind

# What ends by itself and writes something to look at. Servers, keys and consent belong to a terminal.
_OFFERED = (
    "audit",
    "fix",
    "explain",
    "attack",
    "harden",
    "certify model",
    "certify train",
    "bias",
    "privacy",
    "train-privately",
    "extract",
    "complete",
    "encrypt plan",
    "study run",
    "study resume",
)
_LEFT_OUT = ("help", "as_json", "show_list", "dry")  # they change what a terminal shows
# Options whose values have names in the registry.
_NAMED = {"check": "check", "attack": "attack", "data": "dataset", "train": "dataset"}
_NAMED_IN = {("study run", "name"): "study"}


class CommandLineForms:
    """The command line as the web application sees it."""

    @cached_property
    def _commands(self) -> dict[str, Any]:
        from modelkeep import cli

        def find(verb: str) -> Any:
            found: Any = typer.main.get_command(cli.app)
            for name in verb.split():
                found = found.commands[name]
            return found

        return {verb: find(verb) for verb in _OFFERED}

    @property
    def verbs(self) -> dict[str, str]:
        """The commands that have a form, each with the first sentence of its help."""
        return {verb: _first_line(command) for verb, command in self._commands.items()}

    def form(self, verb: str, chosen: Mapping[str, str]) -> Form:
        """The form of a verb; where a method is chosen, its settings are among the fields."""
        command = self._command(verb)
        selectors = _selectors(command)
        given = [word for name, value in chosen.items() if name in selectors for word in (_option_of(name), value)]
        for name, (_, default) in selectors.items():
            if name not in chosen and default is not None:
                given += [_option_of(name), default]
        context = command.make_context(verb, given, resilient_parsing=True)
        methods = context.meta.get(CHOSEN, {}).values()
        declared = {option.name: option for method in methods for option in options_of(method)}
        fields = [
            _field(each, declared, selectors, _NAMED_IN.get((verb, each.name)) or _NAMED.get(each.name, ""))
            for each in command.get_params(context)
            if each.name not in _LEFT_OUT and not each.hidden
        ]
        return Form(verb, _first_line(command), tuple(fields))

    def check(self, words: Sequence[str]) -> None:
        """Parse the line as the command does, and make its methods."""
        verb = next(each for each in _OFFERED if tuple(words[: len(each.split())]) == tuple(each.split()))
        given = list(words[len(verb.split()) :])
        try:
            with self._command(verb).make_context(f"modelkeep {verb}", given) as context:
                prepare_settings(context)
        except UsageError as error:
            raise InputError(explain_usage(error, given)) from error

    def open(self, sources: Sources) -> tuple[Model, Data]:
        """The model and the data as all verbs read them."""
        options = ModelOptions.read(sources.options)
        return model_and_data(sources.model, sources.data, options, sources.train or None)

    def read_training(self, sources: Sources, like: Data) -> Data:
        """The training data that was named; of a built-in set, its training part."""
        options = ModelOptions.read(sources.options)
        return training_data(sources.model, sources.data, sources.train or None, options, like, "Membership needs")

    def _command(self, verb: str) -> Any:
        if verb not in self._commands:
            raise InputError(f"There is no form for '{verb}'. There are: {', '.join(self._commands)}.")
        return self._commands[verb]


def _selectors(command: Any) -> dict[str, tuple[str, str | None]]:
    """The fields that choose a method: its family, and the method that is taken by itself."""
    return {
        choice.selectors[0].removeprefix("--").replace("-", "_"): (choice.family, choice.default)
        for choice in getattr(command, "selectable", ())
    }


def _field(
    parameter: Any, declared: Mapping[str, Option], selectors: Mapping[str, tuple[str, str | None]], family: str
) -> Field:
    """The field of an option or argument; `family` holds the names that are known for it."""
    name, kind = str(parameter.name), _plain(parameter.type_descriptor.annotation)
    is_option = parameter.param_type_name == "option"
    setting = declared.get(name)
    family = selectors[name][0] if name in selectors else family
    names = tuple(declarations(family)) if family else ()
    choices = _choices(kind)
    least, most = parameter.min, parameter.max
    if setting is not None:
        least = setting.setting.at_least if setting.setting.at_least is not None else setting.setting.above
        most = setting.setting.at_most if setting.setting.at_most is not None else setting.setting.below
    closed = (name in selectors or not is_option) and not choices and bool(names)
    return Field(
        name=name,
        option=parameter.opts[0] if is_option else "",
        kind=_kind(parameter, kind, choices or (names if closed else ())),
        help=parameter.help or "",
        default=_text(parameter.default),
        required=bool(parameter.required) or (not is_option and parameter.default == ""),
        choices=choices or (names if closed else ()),
        suggestions=() if closed else names,
        off=next(iter(parameter.secondary_opts), ""),
        least=_finite(least),
        most=_finite(most),
        many=bool(parameter.multiple),
        group=parameter.rich_help_panel or "",
        chooses=name in selectors,
    )


def _kind(parameter: Any, kind: Any, choices: tuple[str, ...]) -> Kind:
    if kind is bool:
        return "switch" if parameter.secondary_opts else "flag"
    if choices and not parameter.multiple:
        return "choice"
    if parameter.multiple:
        return "text"
    kinds: dict[Any, Kind] = {int: "integer", float: "number"}
    return kinds.get(kind, "text")


def _plain(kind: Any) -> Any:
    """The type without None and without the list around it."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    return get_args(kind)[0] if get_origin(kind) is list else kind


def _choices(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is Literal:
        return tuple(str(each) for each in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(str(each.value) for each in kind)
    return ()


def _text(default: Any) -> str:
    if default is None or isinstance(default, bool | list | tuple):
        return ""
    return str(default.value if isinstance(default, Enum) else default)


def _finite(limit: float | None) -> float | None:
    """The limit, where a number of JSON can say it."""
    return limit if limit is not None and isfinite(limit) else None


def _option_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _first_line(command: Any) -> str:
    return str(command.help or "").strip().split("\n")[0]
