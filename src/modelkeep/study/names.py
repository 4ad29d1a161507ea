"""The name and version that `@trial` gives to a function, and how a trial is found again by them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from modelkeep.core.errors import InputError, StudyError, bad_parameter
from modelkeep.core.sources import module_text, module_texts, parse_call

F = TypeVar("F", bound=Callable[..., Any])

# The arguments of `trial` are literals, so that they can be read without running the module. The form is ruff's.
_DECLARED = re.compile(
    r"^@trial\((?P<arguments>.*?)\)\n(?:@.*\n)*(?:async )?def (?P<function>\w+)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class TrialName:
    """What a trial is known by, for ever: its name and its version. `formerly` are the names that it had before."""

    name: str
    version: int = 1
    formerly: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise bad_parameter("trial", "name", "some printable text", self.name)
        if self.version < 1:
            raise bad_parameter("trial", "version", "1 or more", self.version)


def trial(name: str, *, version: int = 1, formerly: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Give a trial's function a name and a version of its own.

    Results are stored under both, so the function may move to another file. Raise the version where earlier results
    must not be used any more. A function without this decorator has its place, `package.module:function`, as its name,
    and version 1. All arguments are literals: they are read without importing the module.

    >>> @trial("mine/area", version=2)
    ... def area(*, seed: int, width: int) -> int:
    ...     return width * width
    >>> area.trial_name.version
    2
    """
    own = TrialName(name, version, formerly)

    def decorate(function: F) -> F:
        function.trial_name = own  # type: ignore[attr-defined]
        return function

    return decorate


def home_of(function: Callable[..., object]) -> str:
    """`package.module:function`, where other processes find it."""
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or not name.isidentifier():
        raise InputError(
            f"A trial's function must be defined at the top of a module that other processes can import. "
            f"Got '{module}:{name}'. Move it to a file of its own and name it package.module:function."
        )
    return f"{module}:{name}"


def name_at(home: str) -> TrialName:
    """The name of the trial at `package.module:function`, without importing that module."""
    module, _, function = home.partition(":")
    if not module or not function.isidentifier():
        raise bad_parameter("Trial", "function", "a name like package.module:function", home)
    try:
        text = module_text(module)
    except (ImportError, KeyError, OSError, ValueError):  # ValueError: no spec, such as __main__, or no text
        text = ""
    if not text:
        raise StudyError(
            f"The module '{module}' of the trial '{home}' cannot be found as Python source. "
            "Is it installed, or in the directory that the study was started from?"
        )
    return dict(_find_declared(text)).get(function, TrialName(home))


def find_home(name: str, home: str) -> str:
    """The place of the trial of that name now: `home`, or where a module of its package or of ours declares it."""
    missing: StudyError | None = None
    if home:
        try:
            if name_at(home).name == name:
                return home
        except StudyError as error:
            missing = error
    found = search(name, home)
    if found is None:
        raise missing or StudyError(
            f"The trial '{name}' cannot be found{f': {home} has another name now' if home else ''}. "
            f'Which function is it? Write @trial("{name}") above it.'
        )
    return found[0]


def search(name: str, home: str = "") -> tuple[str, TrialName] | None:
    """The place and name of the trial that is, or formerly was, named so; None where no source text declares it."""
    texts = dict(module_texts())
    module = home.partition(":")[0]
    if module and module.split(".")[0] != "modelkeep":
        texts |= module_texts(module.split(".")[0])
        with suppress(ImportError, ValueError):
            texts[module] = module_text(module)
    former = None
    for module, text in texts.items():
        for function, declared in _find_declared(text) if "@trial(" in text else ():
            if declared.name == name:
                return f"{module}:{function}", declared
            if name in declared.formerly:
                former = f"{module}:{function}", declared
    return former


def _find_declared(text: str) -> Iterator[tuple[str, TrialName]]:
    for match in _DECLARED.finditer(text):
        call = parse_call(f"trial({match['arguments']})")
        given = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        yield match["function"], TrialName(ast.literal_eval(call.args[0]), **given)
