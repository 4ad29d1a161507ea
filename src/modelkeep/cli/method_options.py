"""The options of a verb that runs one of many methods: `--method NAME` decides which further options there are."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations, find

if TYPE_CHECKING:
    from modelkeep.core.method import Option

_CHOSEN, _GIVEN = "modelkeep.method", "modelkeep.settings"


def method_command(
    family: str,
    default: str,
    *,
    selectors: Sequence[str] = ("--method",),
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> type[TyperCommand]:
    """A class of command that takes the settings of the chosen method of `family` as options.

    The verb declares the selector itself, and what is the same for all methods: `app.command(cls=method_command(...))`.
    It makes the method with `make_method(context)`. Options that the verb has itself are not generated.

    Args:
        family: The family in the registry, such as "attack".
        default: The method that runs where the user names none.
        selectors: The options by which the user names the method.
        aliases: Further options for a setting, such as `{"radius": ["--eps"]}`.
    """

    class MethodCommand(TyperCommand):
        """A command with the options of the chosen method."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            named = _named(args, selectors)
            # Help without a name starts at once: it imports no method.
            if named is not None or not {"--help", "--list"} & set(args):
                ctx.meta[_CHOSEN] = find(family, named or default).load()
            return super().parse_args(ctx, args)

        def get_params(self, ctx: Any) -> list[Any]:
            own = super().get_params(ctx)
            if _CHOSEN not in ctx.meta:
                return own
            taken = {name for each in own for name in [each.name, *each.opts]}
            made = _parameters(ctx.meta[_CHOSEN], taken, aliases or {})
            return [*own[:-1], *made, *own[-1:]]  # --help stays the last

        def invoke(self, ctx: Any) -> Any:
            own = {each.name for each in self.params}
            ctx.meta[_GIVEN] = {name: ctx.params.pop(name) for name in list(ctx.params) if name not in own}
            return super().invoke(ctx)

    return MethodCommand


def make_method(context: typer.Context, **given: Any) -> Any:
    """The chosen method with the settings that the user gave; `given` are those that the verb has options for itself.

    A setting of the verb that this method does not have is refused, so that nobody believes it was heeded.
    """
    from modelkeep.core.method import options_of

    chosen = context.meta[_CHOSEN]
    known = {option.name: option for option in options_of(chosen)}
    told = {name: value for name, value in {**context.meta[_GIVEN], **given}.items() if value is not None}
    for name in told:
        if name not in known:
            raise InputError(
                f"The {chosen.declaration.family} '{chosen.declaration.name}' takes no {name}. "
                f"It takes: {', '.join(sorted(known))}."
            )
    for name, option in known.items():
        if option.required and name not in told:
            raise InputError(
                f"The {chosen.declaration.family} '{chosen.declaration.name}' needs --{name.replace('_', '-')}: "
                f"{option.setting.doc}"
            )
    return chosen(**told)


def list_methods(family: str) -> list[list[str]]:
    """A row for each method of a family: its name, what it must see, what it does, and its paper."""
    return [[each.name, each.access, each.does, each.paper] for each in declarations(family).values()]


def _named(args: Sequence[str], selectors: Sequence[str]) -> str | None:
    for place, argument in enumerate(args):
        option, equals, value = argument.partition("=")
        if option in selectors:
            return value if equals else next(iter(args[place + 1 :]), None)
    return None


def _parameters(method: type, taken: set[str], aliases: Mapping[str, Sequence[str]]) -> list[Any]:
    """The options of a method. Typer makes them, from a function with such a signature."""
    from modelkeep.core.method import options_of

    parameters = []
    for option in options_of(method):
        kind = _kind(option)
        if kind is None or option.name in taken:
            continue
        names = [f"--{option.name.replace('_', '-')}", *aliases.get(option.name, ())]
        names = [name for name in names if name not in taken]
        if kind is bool:
            names[0] = f"{names[0]}/--no-{option.name.replace('_', '-')}"
        told = typer.Option(*names, help=_help(option), show_default=False, rich_help_panel=_panel(method))
        parameters.append(
            Parameter(option.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, told])
        )

    def settings() -> None:
        """Only its signature is read."""

    settings.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    settings.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(settings)
    made: Any = typer.main.get_command(app)
    return [each for each in made.params if each.name != "help"]


def _panel(method: Any) -> str:
    return f"Settings of {method.declaration.name}"


def _help(option: Option) -> str:
    allowed = option.setting.allowed if not option.setting.choices else ""
    default = "required" if option.default is MISSING else f"default: {option.default}"
    notes = [each for each in (allowed, default if option.default is not None else "") if each]
    return f"{option.setting.doc} ({'; '.join(notes)})" if notes else option.setting.doc


def _kind(option: Option) -> Any:
    """The type that a command line can give, or None: a tensor or a recipe is given in Python."""
    if option.setting.choices:
        return Literal[option.setting.choices]
    kinds = [option.type]
    if get_origin(option.type) in (Union, types.UnionType):
        kinds = [each for each in get_args(option.type) if each is not type(None)]
    for kind in kinds:
        if kind in (int, float, str, bool):
            return kind
        if get_origin(kind) is Literal:
            return kind
    return None
