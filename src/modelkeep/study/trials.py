"""Trial: a named function with JSON parameters and a seed, and the identity of that."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from modelkeep.core.errors import InputError, StudyError, bad_parameter
from modelkeep.study.names import find_home, home_of, name_at


@dataclass(frozen=True)
class Trial:
    """The call `function(seed=seed, **parameters)` of the function that has this `name` and `version`.

    `home` is where the function stands, `package.module:function`. It is not part of the identity, nor is the code: the
    function may move, and an edit of it does not make another trial. The ledger keeps the hashes of the code beside
    each result instead, see `modelkeep.study.closure`.

    >>> Trial.of("statistics:fmean", {"data": [1, 2]}, seed=3).label
    'fmean(data=[1, 2]) seed 3'
    """

    name: str
    version: int
    parameters: dict[str, Any]
    seed: int
    home: str = field(compare=False)

    @classmethod
    def of(cls, function: str | Callable[..., object], parameters: Mapping[str, Any], seed: int = 0) -> Trial:
        """A trial of a function: the function itself, its place `package.module:function`, or the name of a trial."""
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise bad_parameter("Trial.of", "seed", "a whole number from 0", seed)
        if "seed" in parameters:
            raise InputError("The parameters of a trial must not hold 'seed': it is given by itself, as seed=….")
        if not isinstance(function, str):
            home = home_of(function)
        else:
            home = function if ":" in function or "/" not in function else find_home(function, "")
        own = name_at(home)
        return cls(own.name, own.version, json.loads(to_json(parameters, "The parameters of a trial")), seed, home)

    @cached_property
    def identity(self) -> str:
        """The SHA-256 of the name, the version, the parameters and the seed, in canonical JSON."""
        own = {"name": self.name, "version": self.version, "parameters": self.parameters, "seed": self.seed}
        return hashlib.sha256(canonical(own).encode()).hexdigest()

    @property
    def label(self) -> str:
        """What a person calls it; of a long value only the beginning. `labels` is shorter for the trials of a study."""
        return self.label_with(self.parameters)

    def label_with(self, parameters: Mapping[str, Any]) -> str:
        """Its label with these parameters only."""
        values = {name: json.dumps(value, ensure_ascii=False) for name, value in parameters.items()}
        given = ", ".join(f"{k}={v if len(v) <= 40 else f'{v[:36]} …'}" for k, v in values.items())
        return f"{re.split('[:/]', self.name)[-1]}({given}) seed {self.seed}"

    def now(self) -> Trial:
        """The same trial by the name and version that its function has now."""
        return Trial.of(find_home(self.name, self.home), self.parameters, self.seed)


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
