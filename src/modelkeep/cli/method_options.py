"""The options of a verb that runs one of many methods: `--method NAME` decides which further options there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from modelkeep.cli.radius import Radius, radius_option
from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations, find, require_extra

if TYPE_CHECKING:
    from modelkeep import Data
    from modelkeep.core.method import Option

CHOSEN = "modelkeep.methods"  # in a context's `meta`: the chosen classes by their families
_GIVEN = "modelkeep.settings"


@dataclass(frozen=True)
class Choice:
    """A further method that a verb lets the user choose; without a default it may be left out."""

    family: str
    selectors: tuple[str, ...]
    default: str | None = None


def method_command(
    family: str,
    default: str,
    *,
    selectors: Sequence[str] = ("--method",),
    more: Sequence[Choice] = (),
    without: Sequence[str] = (),
) -> type[TyperCommand]:
    """A class of command that takes the settings of the chosen method of `family` as options.

    The verb declares the selector itself, and what is the same for all methods: `app.command(cls=method_command(...))`.
    It makes the method with `make_method(context)`. Options that the verb has itself are not generated.

    Args:
        family: The family in the registry, such as "attack".
        default: The method that runs where the user names none.
        selectors: The options by which the user names the method.
        more: Methods of other families that the user chooses as well, such as a guard beside an attack.
        without: Settings that the verb chooses by itself, and for which there is no option.
    """
    choices = (Choice(family, tuple(selectors), default), *more)

    class MethodCommand(TyperCommand):
        """A command with the options of the chosen method."""

        selectable = choices

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            chosen = ctx.meta[CHOSEN] = {}
            for choice in choices:
                named = _named(args, choice.selectors)
                # Help without a name starts at once: it imports no method.
                if named is None and {"--help", "--list"} & set(args):
                    continue
                if name := named or choice.default:
                    declared = find(choice.family, name)
                    require_extra(declared)
                    chosen[choice.family] = declared.load()
            return super().parse_args(ctx, args)

        def get_params(self, ctx: Any) -> list[Any]:
            own = super().get_params(ctx)
            taken = {*without, *(name for each in own for name in [each.name, *each.opts])}
            made: list[Any] = []
            for method in ctx.meta.get(CHOSEN, {}).values():
                made += _parameters(method, taken | {each.name for each in made})
            return [*own[:-1], *made, *own[-1:]]  # --help stays the last

        def invoke(self, ctx: Any) -> Any:
            _take_settings(ctx)
            return super().invoke(ctx)

    return MethodCommand


def _take_settings(context: Any) -> None:
    """Keep the settings of the methods apart from the parameters of the verb."""
    own = {each.name for each in context.command.params}
    context.meta[_GIVEN] = {name: context.params.pop(name) for name in list(context.params) if name not in own}


def prepare_settings(context: typer.Context) -> None:
    """Refuse a wrong setting of the chosen methods without running the verb, which may give settings of its own."""
    from modelkeep.core.method import options_of
    from modelkeep.core.setting_files import file_setting

    _take_settings(context)
    for family, method in context.meta.get(CHOSEN, {}).items():
        needed = {file_setting(each) or each.name for each in options_of(method) if each.required}
        if needed <= set(context.meta[_GIVEN]):  # the others the verb finds or asks for itself
            make_method(context, family)


def chosen_method(context: typer.Context, family: str | None = None) -> Any:
    """The class of the method that the user chose, of the verb's first family by default; None where there is none."""
    chosen = context.meta[CHOSEN]
    return chosen.get(family) if family is not None else next(iter(chosen.values()))


def given_settings(context: typer.Context, family: str | None = None) -> dict[str, Any]:
    """The settings of the chosen method that the user gave, as text: of a model or a secret, the path of its file."""
    from modelkeep.core.method import options_of
    from modelkeep.core.setting_files import file_setting

    keys = {file_setting(each) or each.name for each in options_of(chosen_method(context, family))}
    return {name: value for name, value in context.meta[_GIVEN].items() if name in keys and value is not None}


def make_method(context: typer.Context, family: str | None = None, *, data: Data | None = None, **given: Any) -> Any:
    """The chosen method with the settings that the user gave; `given` are those that the verb has options for itself.

    A setting of the verb that this method does not have is refused, not silently ignored. A radius in standard
    deviations needs the `data`; a verb makes the method once without them, to refuse a wrong setting at once.
    """
    from modelkeep.core.method import options_of
    from modelkeep.core.setting_files import file_setting, read_setting

    chosen = chosen_method(context, family)
    what = f"The {chosen.declaration.family} '{chosen.declaration.name}'"
    known = {file_setting(option) or option.name: option for option in options_of(chosen)}
    told = {**given_settings(context, family), **{name: value for name, value in given.items() if value is not None}}
    for name in told:
        if name not in known:
            raise InputError(f"{what} takes no {name}. It takes: {', '.join(sorted(known))}.")
    settings = {}
    for name, option in known.items():
        if name in told:
            value = told[name]
            if isinstance(value, Radius):
                value = value.of(data)
            is_path = file_setting(option) is not None and isinstance(value, Path)
            settings[option.name] = read_setting(option, value) if is_path else value
        elif option.required:
            raise InputError(f"{what} needs --{name.replace('_', '-')}: {option.setting.doc}")
    return chosen(**settings)


def list_methods(family: str) -> list[list[str]]:
    """A row for each method of a family: its name, what it must see, what it does, and its paper."""
    return [[each.name, each.access, each.does, each.paper] for each in declarations(family).values()]


def _named(args: Sequence[str], selectors: Sequence[str]) -> str | None:
    for place, argument in enumerate(args):
        option, equals, value = argument.partition("=")
        if option in selectors:
            return value if equals else next(iter(args[place + 1 :]), None)
    return None


def _parameters(method: type, taken: set[str]) -> list[Any]:
    """The options of a method. Typer makes them, from a function with such a signature."""
    from modelkeep.core.method import options_of, text_type
    from modelkeep.core.setting_files import file_setting

    parameters = []
    for option in options_of(method):
        file = file_setting(option)
        name, kind = file or option.name, Path if file is not None else text_type(option)
        if kind is None or name in taken:
            continue
        option_name = f"--{name.replace('_', '-')}"
        if kind is bool:
            option_name = f"{option_name}/--no-{name.replace('_', '-')}"
        panel = _panel(method)
        told = typer.Option(option_name, help=_help(option), show_default=False, rich_help_panel=panel)
        if name == "radius":
            kind, told = Radius, radius_option(_note(option), panel)
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, told])
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
    return f"{option.setting.doc} {_note(option)}".strip()


def _note(option: Option) -> str:
    """Its range and its default, in brackets."""
    allowed = option.setting.allowed if not option.setting.choices else ""
    default = "required" if option.default is MISSING else f"default: {option.default}"
    notes = [each for each in (allowed, default if option.default is not None else "") if each]
    return f"({'; '.join(notes)})" if notes else ""
