"""A result must say how to make it again: which method, with which settings, in which line of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelkeep.core.contract.side_effects import violation
from modelkeep.core.method import declaration_of, settings_of
from modelkeep.core.results import Result


def check_repetition(promise: Callable[..., Any], method: object, result: Result) -> None:
    """Check that `result` says what `method` is. A line of Python can only be run where all settings are plain."""
    said, declared = result.provenance, declaration_of(method)
    assert declared is not None
    if said.method != f"{declared.family}/{declared.name}" or said.settings != settings_of(method):
        raise violation(promise, "on good data", f"it says that {said.method} with {said.settings} made it")
    if Result.from_json(result.to_json()).provenance.settings != said.settings:
        raise violation(promise, "read back from JSON", "it says other settings")
    classes = _classes_of(method)
    if classes is None:
        return
    try:
        again = eval(said.python, classes)
    except Exception as error:
        raise violation(promise, f"made again by {said.python}", f"that raised {error!r}") from error
    if again != method:
        raise violation(promise, f"made again by {said.python}", "it is another method")


def _classes_of(value: object) -> dict[str, Any] | None:
    """The classes that a line of Python needs to make `value`; None where no line can, as of a tensor."""
    if value is None or isinstance(value, bool | int | float | str):
        return {}
    own: dict[str, Any] = {}
    if isinstance(value, tuple):
        parts = list(value)
    elif declaration_of(value) is not None:
        parts, own = [getattr(value, name) for name in settings_of(value)], {type(value).__name__: type(value)}
    else:
        return None
    for part in parts:
        found = _classes_of(part)
        if found is None:
            return None
        own |= found
    return own
