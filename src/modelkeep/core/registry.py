"""The registry: everything that was declared, by family and name. To list it imports none of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from modelkeep.core.errors import InputError, MissingExtra, ModelKeepError, did_you_mean
from modelkeep.core.sources import module_text, parse_call, search

_ENTRY_POINTS = "modelkeep.methods"
"""The group under which another package adds methods: `"attack.my-attack" = "my_package.my_module:MyAttack"`."""

# The arguments of `declare` are literals, so that they can be read without running the module. The form is ruff's.
_DECLARED = re.compile(
    r"^(?:@|(?P<value>\w+) = )declare\((?P<arguments>.*?)\)"
    r'(?:\(|\n(?:@.*\n)*(?:class|def) (?P<name>\w+)[^"]*?:\n\s+"""(?P<does>[^"\n]*))',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Declaration:
    """What the registry knows of one thing: its family and name, its place, and what a list of methods says of it.

    `access` is what a method must see of the model; `paper` cites the bibliography (`Saha2020, eq. 2.15`); `extra` is
    the optional dependency group that it needs; `also` are old names.
    """

    family: str
    name: str
    home: str
    does: str = ""
    access: str = ""
    paper: str = ""
    extra: str = ""
    also: tuple[str, ...] = ()

    def load(self) -> Any:
        """Import the thing that was declared."""
        module, _, name = self.home.partition(":")
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if not self.extra or isinstance(error, ModelKeepError):
                raise
            raise MissingExtra(self.extra, error.name or "", f"The {self.family} '{self.name}'") from error


# A package of each extra that its methods import only when they run.
_NEEDED = {"guard": "numba", "encrypt": "tenseal", "private": "opacus", "rl": "minatar", "completion": "optuna"}


def require_extra(declaration: Declaration) -> None:
    """Refuse something whose extra is not installed: now, and not in the middle of its work."""
    needed = _NEEDED.get(declaration.extra, "")
    if needed and find_spec(needed) is None:
        raise MissingExtra(declaration.extra, needed, f"The {declaration.family} '{declaration.name}'")


def declaration_of(method: object) -> Declaration | None:
    """The declaration of a method or of its class; None where it has none of its own."""
    kind = method if isinstance(method, type) else type(method)
    found = vars(kind).get("declaration")
    return found if isinstance(found, Declaration) else None


def declarations(family: str) -> dict[str, Declaration]:
    """All declarations of a family by name: ours first, then those of other packages.

    >>> list(declarations("no such family"))
    []
    """
    return dict(_registry().get(family, {}))


def families() -> tuple[str, ...]:
    """The families that have declarations."""
    return tuple(sorted(_registry()))


def find(family: str, name: str) -> Declaration:
    """The declaration of that name; an unknown name is an error that names the nearest."""
    known = declarations(family)
    name = next((each.name for each in known.values() if name in each.also), name)
    if name not in known:
        meant = did_you_mean(name, known)
        raise InputError(f"There is no {family} '{name}'.{meant} There are: {', '.join(known) or 'none'}.")
    return known[name]


def read_declarations(module: str, text: str) -> Iterator[Declaration]:
    """The declarations in a module's text.

    >>> text = '@declare("attack", "nudge", access="labels")\\nclass Nudge:\\n    \"\"\"One small step.\"\"\"\\n'
    >>> [(each.name, each.does, each.access) for each in read_declarations("mine", text)]
    [('nudge', 'One small step.', 'labels')]
    """
    for match in _DECLARED.finditer(text):
        yield _declaration(module, match)


@cache
def _registry() -> dict[str, dict[str, Declaration]]:
    found: dict[str, dict[str, Declaration]] = {}
    for declaration in [*(_declaration(*each) for each in search(_DECLARED, "declare(")), *_of_other_packages()]:
        family = found.setdefault(declaration.family, {})
        if declaration.name in family:
            raise InputError(
                f"The {declaration.family} '{declaration.name}' is declared twice: in {family[declaration.name].home} "
                f"and in {declaration.home}. Rename one of them."
            )
        family[declaration.name] = declaration
    return found


def _of_other_packages() -> Iterator[Declaration]:
    for point in sorted(entry_points(group=_ENTRY_POINTS), key=lambda point: point.name):
        family, _, name = point.name.partition(".")
        try:
            text = module_text(point.module)
        except (ImportError, KeyError, OSError, ValueError) as error:
            raise InputError(
                f"The entry point '{point.name}' of the group {_ENTRY_POINTS} names {point.value}, whose source "
                f"cannot be read: {error}. Install its package again, or remove it."
            ) from error
        for declaration in read_declarations(point.module, text):
            if (declaration.family, declaration.name) == (family, name):
                yield declaration
                break
        else:
            raise InputError(
                f"The entry point '{point.name}' of the group {_ENTRY_POINTS} names {point.value}, where no "
                f'@declare("{family}", "{name}", …) is found.'
            )


def _declaration(module: str, match: re.Match[str]) -> Declaration:
    call = parse_call(f"declare({match['arguments']})")
    family, name = (ast.literal_eval(argument) for argument in call.args)
    told = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords if word.arg != "kw_only"}
    told.setdefault("does", (match["does"] or "").strip())
    return Declaration(family=family, name=name, home=f"{module}:{match['value'] or match['name']}", **told)
