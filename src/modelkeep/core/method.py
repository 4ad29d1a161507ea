"""Method: the one declaration of a thing with settings. Options, tables, tests and records all come from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import wraps
from inspect import signature
from shlex import quote
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from modelkeep.core.black_box import Access
from modelkeep.core.errors import bad_parameter
from modelkeep.core.registry import Declaration
from modelkeep.core.registry import declaration_of as declaration_of

if TYPE_CHECKING:
    from modelkeep.core.results import Result

T = TypeVar("T")
R = TypeVar("R", bound="Result")


@dataclass(frozen=True)
class Setting:
    """What a field of a method may be: a line of documentation, and its range or its choices."""

    doc: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: tuple[Any, ...] = ()

    def admits(self, value: Any) -> bool:
        """Whether `value` lies in the range or among the choices. NaN lies in no range."""
        return (
            (not self.choices or value in self.choices)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    @property
    def allowed(self) -> str:
        """The range in words.

        >>> Setting("A share.", above=0, at_most=1).allowed
        'above 0 and at most 1'
        """
        words = {"at least": self.at_least, "above": self.above, "at most": self.at_most, "below": self.below}
        told = [
            f"{word} {limit:g}" if math.isfinite(limit) else "finite"
            for word, limit in words.items()
            if limit is not None
        ]
        told += [f"one of {', '.join(map(repr, self.choices))}"] if self.choices else []
        return " and ".join(told)

    @property
    def is_number(self) -> bool:
        """Whether it has a range, and not choices or none."""
        return any(limit is not None for limit in (self.at_least, self.above, self.at_most, self.below))


def setting(
    doc: str,
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: tuple[Any, ...] = (),
    repr: bool = True,
    compare: bool = True,
) -> Any:
    """A field of a method, with its line of documentation and its range. Without a default it must be given.

    A default of None means that the method finds the value itself; None is then always allowed. `repr` and `compare`
    are those of `dataclasses.field`: without `repr` the value, such as a secret, is never shown.
    """
    told = Setting(doc, at_least, above, at_most, below, choices)
    if default_factory is not MISSING:
        return field(default_factory=default_factory, repr=repr, compare=compare, metadata={"setting": told})
    return field(default=default, repr=repr, compare=compare, metadata={"setting": told})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
def declare(
    family: str,
    name: str,
    *,
    access: Access | None = None,
    paper: str = "",
    extra: str = "",
    does: str = "",
    also: tuple[str, ...] = (),
    kw_only: bool = True,
) -> Callable[[T], T]:
    """Declare a method, or anything else that has a name and settings, in the registry.

    A class becomes a frozen dataclass whose settings are checked when it is made. A call of it with a model and data
    says in its result how to repeat it. A value (`MNIST = declare("dataset", "mnist", does="…")(DataSet(…))`) stays as
    it is. All arguments are literals: `registry` reads them without importing the module. `also` lists old names that
    users may have in files; `find` knows them.

    >>> @declare("example", "nudge", access="labels", paper="Saha2020, eq. 2.10")
    ... class Nudge:
    ...     \"\"\"One small step.\"\"\"
    ...
    ...     size: float = setting("How far.", default=0.1, above=0)
    >>> Nudge(size=-1)
    Traceback (most recent call last):
    modelkeep.core.errors.ParameterError: The 'size' parameter of Nudge must be above 0. Got -1 instead.
    """

    def decorate(thing: T) -> T:
        if isinstance(thing, type):
            _prepare(thing, kw_only)
            told = does or (thing.__doc__ or "").strip().split("\n")[0]
            home = f"{thing.__module__}:{thing.__qualname__}"
            thing.declaration = Declaration(family, name, home, told, access or "", paper, extra, also)  # type: ignore[attr-defined]
        elif is_dataclass(thing) and hasattr(thing, "declaration"):  # a value that wants to know what it is called
            own = Declaration(family, name, "", does, access or "", paper, extra, also)
            return cast(T, replace(cast(Any, thing), declaration=own))
        return thing

    return decorate


@dataclass(frozen=True)
class Option:
    """A setting of a method as a command line, a form or a table shows it."""

    name: str
    type: Any
    default: Any
    setting: Setting

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING


def options_of(method: type) -> tuple[Option, ...]:
    """The settings of a method in their order, with their types."""
    hints = get_type_hints(method)
    return tuple(Option(each.name, hints[each.name], _default(each), told) for each, told in _settings(method))


def text_type(option: Option) -> Any:
    """The type of a setting that a command line or a file can give; None for a tensor or a recipe, given in Python."""
    if option.setting.choices:
        return Literal[option.setting.choices]
    kinds = [option.type]
    if get_origin(option.type) in (Union, UnionType):
        kinds = [each for each in get_args(option.type) if each is not type(None)]
    plain = (kind for kind in kinds if kind in (int, float, str, bool) or get_origin(kind) is Literal)
    return next(plain, None)


def settings_of(method: object) -> dict[str, Any]:
    """The settings of a method as JSON: what was run."""
    from modelkeep.core.description import describe

    told: dict[str, Any] = {}
    for each, _ in _settings(type(method)):
        value = getattr(method, each.name)
        own = declaration_of(value)
        # By family: a setting of the value may well be called `name`.
        told[each.name] = {own.family: own.name, **settings_of(value)} if own is not None else _plain(value, describe)
    return told


def python_of(method: object) -> str:
    """The Python expression that makes this method: its class, and the settings that are not the default.

    >>> python_of(Setting("A share.", at_most=1))
    "Setting(doc='A share.', at_most=1)"
    """
    given = []
    for each in fields(method):  # type: ignore[arg-type]
        if not each.init:
            continue
        value, default = getattr(method, each.name), _default(each)
        if default is MISSING or (value is not default and repr(value) != repr(default)):
            given.append(f"{each.name}={_python(value) if each.repr else '…'}")
    return f"{type(method).__name__}({', '.join(given)})"


def _python(value: Any) -> str:
    """The expression for a value; "…" for one that no short expression makes: a result, a lambda, an object."""
    if hasattr(value, "item") and hasattr(value, "shape"):  # a tensor: its text is cut, and no expression
        return "…"
    if is_dataclass(value) and not isinstance(value, type):
        return "…" if hasattr(value, "provenance") else python_of(value)
    text = getattr(value, "__qualname__", repr(value))  # a function by its name
    return "…" if "<" in text else text


def command_of(method: object) -> str:
    """The options of the command line that give this method its settings."""
    told = []
    for each, _ in _settings(type(method)):
        value, default = getattr(method, each.name), _default(each)
        if value is None or (default is not MISSING and repr(value) == repr(default)):
            continue
        option = each.name.replace("_", "-")
        if isinstance(value, bool):
            told.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, int | float | str):
            told.append(f"--{option} {quote(str(value))}")  # a class may be called "not a dog; or so"
        elif isinstance(notation := getattr(value, "notation", None), str):  # a guarantee
            told.append(f"--{option} {quote(notation)}")
        else:  # a tensor, a recipe: a value that only Python can give
            told.append(f"--{option} …")
    return " ".join(told)


def _unwrap_numbers(method: object) -> None:
    """Take the number out of a tensor or an array that holds one, so that a result says and stores a number."""
    for each, told in _settings(type(method)):
        value = getattr(method, each.name)
        if not told.is_number or not hasattr(value, "item") or not hasattr(value, "shape"):
            continue
        if math.prod(value.shape) != 1:
            allowed = f"one number, {told.allowed}"
            raise bad_parameter(type(method).__name__, each.name, allowed, f"{len(value)} of them")
        object.__setattr__(method, each.name, value.item())


def check_settings(method: object) -> None:
    """Refuse a setting that is out of its range, in the one form of message."""
    for each, told in _settings(type(method)):
        value = getattr(method, each.name)
        if value is None and _default(each) is None:
            continue
        try:
            fits = told.admits(value)
        except TypeError:  # a text where a number belongs
            fits = False
        if not fits:
            raise bad_parameter(type(method).__name__, each.name, told.allowed, value)


def _settings(method: type) -> Iterator[tuple[Field[Any], Setting]]:
    for each in fields(method):
        told = each.metadata.get("setting")
        if isinstance(told, Setting):
            yield each, told


def _default(each: Field[Any]) -> Any:
    return each.default_factory() if each.default_factory is not MISSING else each.default


def _plain(value: Any, otherwise: Callable[[Any], Any]) -> Any:
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return otherwise(value)


def _prepare(kind: type, kw_only: bool) -> None:
    own = getattr(kind, "__post_init__", None)  # also that of a base of several methods

    def check(self: object) -> None:
        _unwrap_numbers(self)
        check_settings(self)
        if own is not None:
            own(self)

    kind.__post_init__ = check  # type: ignore[attr-defined]
    # Its own call, or that of a base of several methods, which is not declared itself.
    call = next((vars(each)["__call__"] for each in kind.__mro__ if "__call__" in vars(each)), None)
    if call is not None and "model" in signature(call).parameters and not hasattr(call, "checks_access"):
        type.__setattr__(kind, "__call__", _checked(call))
    dataclass(frozen=True, kw_only=kw_only)(kind)


def recorded(result: R, method: object, warnings: tuple[str, ...] = ()) -> R:
    """The result, which now says which method and settings made it, and what its model warns of."""
    own = declaration_of(method)
    name = f"{own.family}/{own.name}" if own is not None else None
    told = replace(
        result.provenance,
        method=name,
        settings=settings_of(method),
        python=python_of(method),
        options=command_of(method),
        warnings=tuple(dict.fromkeys((*result.provenance.warnings, *warnings))),
    )
    return replace(result, provenance=told)


def _checked(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call of a method, after the check that the model gives what the method needs; its result is recorded."""
    names = list(signature(call).parameters)[1:]
    place = names.index("model")

    @wraps(call)
    def run(self: object, *arguments: Any, **named: Any) -> Any:
        from modelkeep.core.access import check_access
        from modelkeep.core.results import Result

        check_access(self, arguments[place] if len(arguments) > place else named.get("model"))
        found = call(self, *arguments, **named)
        if "data" not in names or not isinstance(found, Result):
            return found
        model = arguments[place] if len(arguments) > place else named.get("model")
        return recorded(found, self, tuple(getattr(model, "warnings", ())))

    run.checks_access = True  # type: ignore[attr-defined]
    return run
