"""Every error that ModelKeep raises on purpose, in one small tree.

A message says what was wrong, what was got, what is allowed and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any


class ModelKeepError(Exception):
    """The root: catch this to catch everything that ModelKeep raises on purpose."""


class InputError(ModelKeepError, ValueError):
    """A value that the caller gave is not usable: shape, dtype, range, NaN."""


class ModelError(ModelKeepError):
    """A model cannot be read, written or run."""


class QueryBudget(ModelKeepError):
    """A method wants to ask the model more often than it was allowed to."""


class SliceError(ModelKeepError):
    """A place in the network is unknown or ambiguous, or cannot be cut exactly."""


class DataError(ModelKeepError):
    """A data set cannot be found, fetched, read or trusted."""


class TrainingError(ModelKeepError):
    """A training cannot go on, because its loss or its weights are no longer finite; `history` is how far it came."""

    history: tuple[Any, ...] = ()


class CheckpointError(ModelKeepError):
    """A checkpoint is damaged or belongs to another run."""


class StudyError(ModelKeepError):
    """A study or its ledger cannot do what was asked."""


class ResultError(ModelKeepError):
    """A stored result cannot be read back."""


class PredictionError(InputError):
    """A prediction is not one: NaN, negative, not summing to one, of the wrong shape. It is never answered."""


class GuardError(ModelKeepError):
    """A gateway cannot be configured, started or asked as it was."""


class StoreUnavailable(GuardError):
    """The durable state cannot be reached now; nothing was lost, and the same call may be made again."""


class GovernError(ModelKeepError):
    """Parties cannot work together as they are: another agreement, a wrong identity, a ledger that does not fit."""


class ConsentRefused(GovernError):
    """A party does not consent to a pass, or not any more. The message is that party's reason."""


class ConsentPending(ConsentRefused):
    """A party has not decided yet: ask for the same pass again, best after `seconds`."""

    def __init__(self, reason: str, seconds: float = 1.0) -> None:
        self.seconds = seconds
        super().__init__(reason)


class PartyUnavailable(GovernError):
    """A party cannot be reached, did not answer in time or broke off; nothing was lost, and the pass may run again."""


class WireError(PartyUnavailable):
    """What came over the wire is not a message that may come: too large, of the wrong shape, damaged, out of turn."""


class MissingExtra(ModelKeepError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, extra: str, package: str, purpose: str) -> None:
        self.extra = extra
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f"Install it with: pip install 'modelkeep[{extra}]'"
        )


def bad_parameter(function: str, name: str, allowed: str, got: object) -> InputError:
    """The one form of message for a parameter out of its range.

    >>> raise bad_parameter("pgd", "radius", "a number above 0", -1)
    Traceback (most recent call last):
    modelkeep.core.errors.InputError: The 'radius' parameter of pgd must be a number above 0. Got -1 instead.
    """
    return InputError(f"The '{name}' parameter of {function} must be {allowed}. Got {got!r} instead.")


def unknown_class(owner: str, name: str, classes: Sequence[str]) -> InputError:
    """The error for a class that does not exist, with the nearest names.

    >>> raise unknown_class("The model", "catt", ("cat", "dog"))
    Traceback (most recent call last):
    modelkeep.core.errors.InputError: The model has no class 'catt'. Did you mean 'cat'? Its classes: cat, dog.
    """
    near = difflib.get_close_matches(name, classes, n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return InputError(f"{owner} has no class '{name}'.{hint} Its classes: {join_names(classes)}.")


def join_names(names: Sequence[str], most: int = 20) -> str:
    """Names for a sentence; of very many, only the first.

    >>> join_names(["a", "b", "c"], most=2)
    'a, b, … (3 in all)'
    """
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])}, … ({len(names)} in all)"
