"""Trial: a named function with JSON parameters and a seed, the identity of that, and how a worker performs it."""

from __future__ import annotations

import hashlib
import json
import math
import random
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from modelkeep import __version__
from modelkeep.core import progress
from modelkeep.core.errors import InputError, StudyError, bad_parameter
from modelkeep.study.trial_progress import Telling


@dataclass(frozen=True)
class Trial:
    """The call `function(seed=seed, **parameters)`, where `function` is named `package.module:function`.

    `code` is the version of the code that the trial belongs to: modelkeep's version and the SHA-256 of the source
    of the function's own module. A change there makes it another trial, which runs again. A change in a module
    that this one imports is not seen: hashing everything that can be reached would run a week of trainings again
    after an edit of a help text. After such a change, touch the function's module or use a new ledger.

    >>> Trial.of("statistics:fmean", {"data": [1, 2]}, seed=3).label
    'fmean(data=[1, 2]) seed 3'
    """

    function: str
    parameters: dict[str, Any]
    seed: int
    code: str

    @classmethod
    def of(cls, function: str | Callable[..., object], parameters: Mapping[str, Any], seed: int = 0) -> Trial:
        """A trial of the code as it is now. `function` is a name, or the function itself."""
        name = function if isinstance(function, str) else name_of(function)
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise bad_parameter("Trial.of", "seed", "a whole number from 0", seed)
        if "seed" in parameters:
            raise InputError("The parameters of a trial must not hold 'seed': it is given by itself, as seed=….")
        return cls(name, json.loads(to_json(parameters, "The parameters of a trial")), seed, code_version(name))

    @cached_property
    def identity(self) -> str:
        """The SHA-256 of the function's name, the parameters in canonical JSON, the seed and the code's version."""
        # Without dataclasses.asdict, which copies all parameters deeply: a study may have ten thousand trials.
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return hashlib.sha256(canonical(own).encode()).hexdigest()

    @property
    def label(self) -> str:
        """What a person calls it; of a long value only the beginning. Within a study, `naming.labels` tells more."""
        return self.called(self.parameters)

    def called(self, told: Mapping[str, Any]) -> str:
        """What a person calls it who is told this of its parameters."""
        values = {name: json.dumps(value, ensure_ascii=False) for name, value in told.items()}
        given = ", ".join(f"{k}={v if len(v) <= 40 else f'{v[:36]} …'}" for k, v in values.items())
        return f"{self.function.partition(':')[2]}({given}) seed {self.seed}"

    def now(self) -> Trial:
        """The same trial of the code as it is now."""
        return Trial.of(self.function, self.parameters, self.seed)


def grid(
    function: str | Callable[..., object],
    axes: Mapping[str, Sequence[Any]],
    seeds: Iterable[int] = (0,),
) -> tuple[Trial, ...]:
    """One trial for each combination of the axes' values and each seed.

    >>> [trial.label for trial in grid("statistics:fmean", {"data": [[1], [2]]}, seeds=[0])]
    ['fmean(data=[1]) seed 0', 'fmean(data=[2]) seed 0']
    """
    seeds = tuple(seeds)
    return tuple(
        Trial.of(function, dict(zip(axes, values, strict=True)), seed)
        for values in product(*axes.values())
        for seed in seeds
    )


def name_of(function: Callable[..., object]) -> str:
    """`package.module:function`, by which other processes find it."""
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or not name.isidentifier():
        raise InputError(
            f"A trial's function must be defined at the top of a module that other processes can import. "
            f"Got '{module}:{name}'. Move it to a file of its own and name it package.module:function."
        )
    return f"{module}:{name}"


def code_version(function: str) -> str:
    """modelkeep's version and the hash of the source of the function's module, without importing that module."""
    module, _, name = function.partition(":")
    if not module or not name.isidentifier():
        raise bad_parameter("Trial", "function", "a name like package.module:function", function)
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):  # ValueError: a module without a spec, such as __main__
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise StudyError(
            f"The module '{module}' of the trial '{function}' cannot be found as Python source. "
            "Is it installed, or in the directory that the study was started from?"
        )
    source = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    return f"{__version__}+{source[:16]}"


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def to_json(value: Any, whose: str) -> str:
    """Canonical JSON, or an error that names the place of the first value that JSON cannot hold."""
    for place, part in _parts(value, ""):
        if isinstance(part, float) and not math.isfinite(part):
            raise StudyError(
                f"{whose} hold {part} at {place or 'the top'}, which JSON has no number for. Use None or a text."
            )
        if not isinstance(part, str | int | float | None):
            raise StudyError(
                f"{whose} hold a {type(part).__name__} at {place or 'the top'}. "
                "Allowed are text, numbers, True, False, None, and lists and dicts (with text keys) of these."
            )
    return canonical(value)


def _parts(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        for key, part in value.items():
            yield from _parts(part, f"{place}[{key!r}]")
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _parts(part, f"{place}[{i}]")
    else:
        yield place, value


_directory: ContextVar[Path | None] = ContextVar("modelkeep_workdir", default=None)


def workdir() -> Path:
    """The directory of the trial that is running; the same one when the trial is tried again.

    A long training passes `fit(..., checkpoint=workdir() / "checkpoint")` and goes on where it was stopped.
    """
    directory = _directory.get()
    if directory is None:
        raise StudyError("No trial is running here. To try a function by hand: `with working_in(directory): …`.")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def working_in(directory: str | Path) -> Iterator[None]:
    """Make `directory` the `workdir()` of everything in the block."""
    token = _directory.set(Path(directory))
    try:
        yield
    finally:
        _directory.reset(token)


def perform(trial: Trial, directory: str) -> tuple[str, str]:
    """Run a trial in this process: ("done", its value as JSON) or ("failed", the traceback)."""
    # Loaded before the trial even where it does not use them: a worker is reused, and a library first imported
    # inside one trial would start from a random state that the next trial does not see.
    import numpy
    import torch

    try:
        if (found := code_version(trial.function)) != trial.code:
            raise StudyError(f"The code of {trial.function} changed while the study ran: {trial.code} became {found}.")
        module, _, name = trial.function.partition(":")
        function = getattr(import_module(module), name)
        random.seed(trial.seed)
        numpy.random.seed(trial.seed % 2**32)
        torch.manual_seed(trial.seed)
        with working_in(directory), progress.watch(Telling(directory)):
            value = function(seed=trial.seed, **trial.parameters)
        return "done", _value_to_json(value)
    except BaseException as error:  # also SystemExit: a trial that leaves fails, its worker stays
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        return "failed", "".join(traceback.format_exception(error))


def _value_to_json(value: Any) -> str:
    from modelkeep.core.results import Result

    if isinstance(value, Result):
        return canonical(json.loads(value.to_json()))
    return to_json(value, "The returned data of a trial")
