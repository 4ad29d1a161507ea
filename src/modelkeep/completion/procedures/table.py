"""The table of all declared procedures, and how a text names one with its settings."""

from __future__ import annotations

from typing import Any, Literal, cast, get_origin

from modelkeep.completion.procedures.procedure import Procedure
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.method import Option, options_of
from modelkeep.core.registry import declarations, find

FAMILY = "procedure"

PROCEDURES: dict[str, Procedure] = {
    variant.name: variant
    for _, declaration in sorted(declarations(FAMILY).items())
    for variant in declaration.load().variants()
}
"""By the names that tables, trials and commands use."""


def read_procedure(text: str) -> Procedure:
    """The procedure that a text names: a name of the table, or a declared name with settings.

    >>> read_procedure("T4 msra").name
    'T4 msra'
    >>> read_procedure("t3 width=8 between=relu").name
    'T3 relu 8x'
    """
    if text in PROCEDURES:
        return PROCEDURES[text]
    name, *words = text.split() or [""]
    method = find(FAMILY, name.lower()).load()
    known = {option.name: option for option in options_of(method)}
    settings: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in known:
            allowed = ", ".join(f"{each}=…" for each in known) or "none"
            raise InputError(f"The procedure '{name}' has no setting '{word}'. Its settings: {allowed}.")
        settings[key] = _read_value(known[key], value)
    if absent := [option.name for option in known.values() if option.required and option.name not in settings]:
        raise InputError(f"The procedure '{name}' needs {', '.join(f'{each}=…' for each in absent)}.")
    return cast(Procedure, method(**settings))


def _read_value(option: Option, text: str) -> Any:
    """A value of the setting's type; whether it is in its range, the method says."""
    kind = str if get_origin(option.type) is Literal else option.type
    if kind not in (int, float, str):
        raise InputError(f"The setting '{option.name}' can only be given in Python.")
    try:
        return kind(text)
    except ValueError as error:
        raise bad_parameter("read_procedure", option.name, f"a value such as {option.default}", text) from error
