"""Every error that ModelKeep raises on purpose, in one small tree.

A message says what was wrong, what was got, what is allowed and what to do next. It speaks the language of the caller:
`str(error)` uses the names of Python, `error.on_command_line(…)` those of the command line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Remedy:
    """What to do next, as one sentence for Python and one for the command line."""

    python: str
    command_line: str


class ModelKeepError(Exception):
    """The root: catch this to catch everything that ModelKeep raises on purpose.

    A message that names a Python call or keyword gives it as `remedy`, so that the command line can name the option.

    >>> error = ModelKeepError("The input is unknown.", remedy=Remedy("Give input_shape=….", "Give --input-shape."))
    >>> str(error)
    'The input is unknown. Give input_shape=….'
    >>> error.on_command_line({})
    'The input is unknown. Give --input-shape.'
    """

    def __init__(self, wrong: str = "", *, remedy: Remedy | None = None) -> None:
        self.wrong = wrong
        self.remedy = remedy
        super().__init__(wrong if remedy is None else f"{wrong} {remedy.python}".strip())

    def on_command_line(self, given: Mapping[str, str]) -> str:
        """The message for a person who called a command with these options (`{"--radius": "-1"}`)."""
        return str(self) if self.remedy is None else f"{self.wrong} {self.remedy.command_line}".strip()


class InputError(ModelKeepError, ValueError):
    """A value that the caller gave is not usable: shape, dtype, range, NaN."""


class ParameterError(InputError):
    """One parameter of a call is out of its range; on the command line it is called by its option."""

    def __init__(self, function: str, name: str, allowed: str, got: str) -> None:
        self.function, self.name, self.allowed, self.got = function, name, allowed, got
        super().__init__(f"The '{name}' parameter of {function} must be {allowed}. Got {got} instead.")

    def __reduce__(self) -> tuple[Any, ...]:
        return ParameterError, (self.function, self.name, self.allowed, self.got)

    def on_command_line(self, given: Mapping[str, str]) -> str:
        """The message with the option in place of the parameter, where the option was given."""
        option = f"--{self.name.replace('_', '-')}"
        if option in given:
            return f"{option} must be {self.allowed}. Got {given[option] or self.got}."
        return f"The {self.name.replace('_', ' ')} must be {self.allowed}. Got {self.got}."


class ModelError(ModelKeepError):
    """A model cannot be read, written or run."""


class AccessError(ModelKeepError):
    """A method needs to see more of a model (its weights, its scores) than the model gives."""


class QueryBudget(ModelKeepError):
    """A method wants to ask the model more often than it was allowed to."""


class SliceError(ModelKeepError):
    """A place in the network is unknown or ambiguous, or cannot be cut exactly."""


class UnknownPlace(SliceError, InputError):
    """The network has no place of the name, or no call of the number, that the caller gave."""


class DataError(ModelKeepError):
    """A data set cannot be found, fetched, read or trusted."""


class UnknownData(DataError, InputError):
    """There is no data set of the name that the caller gave."""


class OutOfTime(ModelKeepError):
    """Work was stopped at its time limit; `whole` is about how many seconds the task at hand would have taken."""

    def __init__(self, message: str, whole: float) -> None:
        self.whole = whole
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return OutOfTime, (self.wrong, self.whole)


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


class FolderInUse(GovernError):
    """Another process works in a party's folder, so this one may not."""


class ConsentRefused(GovernError):
    """A party does not consent to a pass, or not any more. The message is that party's reason."""


class ConsentPending(ConsentRefused):
    """A party has not decided yet: ask for the same pass again, best after `seconds`."""

    def __init__(self, reason: str, seconds: float = 1.0) -> None:
        self.seconds = seconds
        super().__init__(reason)


class PartyUnavailable(GovernError):
    """A party cannot be reached, did not answer in time or broke off; nothing was lost, and the pass may run again."""


class PartyBusy(PartyUnavailable):
    """A party leads a session itself, or takes part in another one: it is asked again when that has ended."""


class WireError(PartyUnavailable):
    """What came over the wire is not a message that may come: too large, of the wrong shape, damaged, out of turn."""


class EncryptError(ModelKeepError):
    """Encrypted values cannot be computed with as they are: damaged, of other parameters, too deep, out of turn."""


class MissingExtra(ModelKeepError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, extra: str, package: str, purpose: str) -> None:
        self.extra, self.package, self.purpose = extra, package, purpose
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f"Install it with: pip install 'modelkeep[{extra}]'"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return MissingExtra, (self.extra, self.package, self.purpose)


def bad_parameter(function: str, name: str, allowed: str, got: object) -> ParameterError:
    """The one form of message for a parameter out of its range.

    >>> raise bad_parameter("pgd", "radius", "a number above 0", -1)
    Traceback (most recent call last):
    modelkeep.core.errors.ParameterError: The 'radius' parameter of pgd must be a number above 0. Got -1 instead.
    """
    return ParameterError(function, name, allowed, repr(got))


def unknown_class(owner: str, name: str, classes: Sequence[str]) -> InputError:
    """The error for a class that does not exist, with the nearest names.

    >>> raise unknown_class("The model", "catt", ("cat", "dog"))
    Traceback (most recent call last):
    modelkeep.core.errors.InputError: The model has no class 'catt'. Did you mean 'cat'? Its classes: cat, dog.
    """
    return InputError(
        f"{owner} has no class '{name}'.{did_you_mean(name, classes)} Its classes: {join_names(classes)}."
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The sentence that names the nearest of the known names, with a space before it; empty where none is near.

    >>> did_you_mean("pdg", ["pgd", "fgsm"])
    " Did you mean 'pgd'?"
    >>> did_you_mean("MNIST", ["mnist"])
    " Did you mean 'mnist'?"
    """
    plain = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), plain, n=3, cutoff=0.6)
    # A guess much worse than the best one only distracts.
    best = [each for each in near if _likeness(name, each) >= _likeness(name, near[0]) - 0.15]
    return f" Did you mean {' or '.join(repr(plain[each]) for each in best)}?" if best else ""


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other).ratio()


def join_names(names: Sequence[str], most: int = 20) -> str:
    """Names for a sentence; of very many, only the first.

    >>> join_names(["a", "b", "c"], most=2)
    'a, b, … (3 in all)'
    """
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])}, … ({len(names)} in all)"
