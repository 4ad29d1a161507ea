"""What every method returns: a frozen dataclass that prints as a table, becomes JSON and draws itself."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from operator import not_
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import torch
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, TypeAdapter, ValidationError

from modelkeep.core.errors import InputError, ResultError
from modelkeep.core.html import result_html
from modelkeep.core.sources import search

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class Estimate:
    """A number measured on `n` samples, with the interval [low, high] that holds it at `level` confidence."""

    value: float
    low: float
    high: float
    n: int
    level: float = 0.95

    @classmethod
    def rate(cls, successes: float, n: int, level: float = 0.95) -> Estimate:
        """A proportion with its exact (Clopper–Pearson) interval.

        Where each sample is a share from 0 to 1 and not a yes or no, `successes` is their sum: shares vary less than
        yes and no with the same mean, so the interval is then wider than it has to be.

        >>> print(Estimate.rate(9, 10))
        0.900 [0.555, 0.997] n=10
        """
        from scipy.special import betaincinv

        if not 0 <= successes <= n or n == 0:
            raise InputError(f"A rate needs 0 <= successes <= n and n > 0. Got {successes} of {n}.")
        tail = (1 - level) / 2
        low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, tail))
        high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1 - tail))
        return cls(successes / n, low, high, n, level)

    @classmethod
    def bootstrap(
        cls,
        samples: Sequence[float] | np.ndarray[Any, Any],
        seed: int = 0,
        statistic: Callable[..., Any] = np.mean,
        *,
        resamples: int = 2000,
        level: float = 0.95,
    ) -> Estimate:
        """A statistic of independent samples with its percentile bootstrap interval.

        `statistic` takes an array and `axis=`, as `numpy.mean` does. `samples`: (n,).
        """
        drawn = np.asarray(samples, dtype=np.float64)
        if drawn.ndim != 1 or len(drawn) == 0 or not np.isfinite(drawn).all():
            raise InputError(f"A bootstrap needs a non-empty list of finite numbers. Got shape {drawn.shape}.")
        random = np.random.default_rng(seed)
        # One row of indices at a time would be slow, all at once would not fit: 1e7 numbers per chunk.
        chunk = max(1, int(1e7 // len(drawn)))
        repeated = np.concatenate(
            [
                statistic(drawn[random.integers(0, len(drawn), (min(chunk, resamples - i), len(drawn)))], axis=1)
                for i in range(0, resamples, chunk)
            ]
        )
        low, high = np.quantile(repeated, [(1 - level) / 2, (1 + level) / 2])
        return cls(float(statistic(drawn, axis=0)), float(low), float(high), len(drawn), level)

    def excludes(self, value: float) -> bool:
        """Whether `value` lies outside the interval, so that a claim against it is supported."""
        return not self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] n={self.n}"


def _encode_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    array = tensor.detach().cpu().contiguous().numpy()
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "base64": base64.b64encode(array.tobytes()).decode("ascii"),
    }


def _decode_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    try:
        raw = bytearray(base64.b64decode(value["base64"], validate=True))
        array = np.frombuffer(raw, dtype=np.dtype(value["dtype"])).reshape(value["shape"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a stored tensor: {error}") from error
    return torch.from_numpy(array)


Tensor = Annotated[torch.Tensor, PlainSerializer(_encode_tensor), PlainValidator(_decode_tensor)]
"""A tensor field of a result: stored in JSON as dtype, shape and base64, so that it comes back bit for bit."""


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from, so that it can be made again.

    `method` (`attack/pgd`), its `settings` as JSON, the `python` expression that makes it and its command-line
    `options` are there where a declared method was called. `warnings` are what a reader must know about the model.
    """

    model: str | None
    data: str | None
    seed: int
    seconds: float
    version: str
    method: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    python: str = ""
    options: str = ""
    warnings: Annotated[tuple[str, ...], Field(exclude_if=not_)] = ()


@contextmanager
def measured(
    seed: int, model: str | None = None, data: str | None = None, warnings: tuple[str, ...] = ()
) -> Iterator[Callable[[], Provenance]]:
    """Time a method; the yielded function makes the provenance at the end of it.

    >>> with measured(seed=0) as provenance:
    ...     pass
    >>> provenance().seed
    0
    """
    from modelkeep.core.version import __version__

    start = perf_counter()
    yield lambda: Provenance(model, data, seed, perf_counter() - start, __version__, warnings=warnings)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The base of all results. A capability adds its fields, `rows` and, where it helps, `draw`.

    `kind` is the name under which it is stored, for ever: `class Attacked(Result, kind="attacked")`. `schema` is its
    version. It is raised when the fields change their meaning; JSON of another schema is refused, not guessed at,
    unless it is one of `older_schemas`, which the fields' validators still read.
    """

    schema: ClassVar[int] = 1
    older_schemas: ClassVar[tuple[int, ...]] = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, ser_json_inf_nan="strings", extra="forbid"
    )
    _kinds: ClassVar[dict[str, type[Result]]] = {}
    _kind: ClassVar[str] = ""

    provenance: Provenance = field(repr=False)

    def __init_subclass__(cls, kind: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        # A user's class without a kind is stored by its place, and must stay there.
        cls._kind = kind or f"{cls.__module__}.{cls.__qualname__}"
        Result._kinds[cls._kind] = cls
        # Set here, where `dataclass` finds it: its own would print every tensor in full.
        if "__repr__" not in vars(cls):
            cls.__repr__ = Result.__repr__  # type: ignore[method-assign]

    @classmethod
    def kind(cls) -> str:
        """The name under which this type of result is stored."""
        return cls._kind

    @property
    def python(self) -> str:
        """The Python line that makes this result again; empty where it does not come from a declared method."""
        p = self.provenance
        return f"{p.python}(model, data, seed={p.seed})" if p.method is not None else ""

    @property
    def command(self) -> str:
        """The command that makes this result again; empty where there is no such command."""
        p = self.provenance
        if p.method is None:
            return ""
        family, _, name = p.method.partition("/")
        verb = _VERBS.get(family, f"{family} MODEL --data DATA --method")
        return " ".join(filter(None, [f"modelkeep {verb} {name}", p.options, f"--seed {p.seed}"])) if verb else ""

    def rows(self) -> list[tuple[str, str]]:
        """What a person reads: a label and a value per line."""
        raise NotImplementedError

    def draw(self) -> Figure:
        """The picture of this result."""
        raise InputError(f"{type(self).__name__} has no picture; print it instead.")

    def table(self) -> Table:
        """The rows as a rich table, with provenance below."""
        from rich.table import Table
        from rich.text import Text

        p = self.provenance
        made = f"seed {p.seed} · {p.seconds:.2f} s · modelkeep {p.version}"
        repeat = [f"again: {line}" for line in (self.command, self.python) if line]
        caption = Text("\n".join([made, *repeat]))
        for warning in p.warnings:
            caption.append(f"\n{warning}", style="red")
        table = Table(title=type(self).__name__, show_header=False, caption=caption)
        table.add_column(style="bold")
        table.add_column()
        for label, value in self.rows():
            table.add_row(label, value)
        return table

    def __rich__(self) -> Table:
        return self.table()

    def __repr__(self) -> str:
        """The kind of result and its first rows, in one line."""
        rows = [" ".join(f"{label}: {value}".split()) for label, value in self.rows()[:_BRIEF]]
        return f"{type(self).__name__}({'; '.join(rows)})"

    def _repr_html_(self) -> str:
        return result_html(self)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, no_color=True)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get().rstrip()

    def to_json(self) -> str:
        """JSON text with the kind and the schema's version; `Result.from_json` reads it back."""
        body = json.loads(TypeAdapter(type(self)).dump_json(self))
        return json.dumps({"kind": self.kind(), "schema": self.schema, **body}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a stored result. Called on `Result` it finds the type; on a subclass it insists on it."""
        try:
            body = json.loads(text)
            kind, schema = body.pop("kind"), body.pop("schema")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise ResultError(f"This is not a stored ModelKeep result: {error!r}.") from error
        found = _find_kind(kind)
        if found is None:
            raise ResultError(f"Unknown kind of result '{kind}'. Import the module that defines it, then read again.")
        if not issubclass(found, cls):
            raise ResultError(f"Expected a stored {cls.__name__}, got '{kind}'.")
        if schema != found.schema and schema not in found.older_schemas:
            raise ResultError(
                f"This {found.__name__} was stored with schema {schema}; this version reads schema {found.schema}. "
                "Read it with the version of modelkeep named in its provenance."
            )
        try:
            return TypeAdapter(found).validate_python(body)
        except ValidationError as error:
            raise ResultError(f"This stored {found.__name__} is damaged: {error}") from error


# The commands of the families that are not verbs themselves; a measurement is run from Python.
_VERBS = {
    "explainer": "explain MODEL --data DATA --method",
    "hardening": "harden MODEL --data DATA --method",
    "mitigation": "bias MODEL --data DATA --mitigate",
    "measurement": "",
    "privacy-audit": "train-privately MODEL --data DATA --audit",
    "private-training": "train-privately MODEL --data DATA --method",
}
_BRIEF = 3  # rows in a result's repr
_KIND = re.compile(r'^class \w+\(\w+, kind="(?P<kind>[^"]+)"', re.MULTILINE)


def _find_kind(kind: object) -> type[Result] | None:
    """The type of that kind; the module that defines it is imported if it is one of ours."""
    if not isinstance(kind, str):
        return None
    if kind not in Result._kinds and kind.startswith("modelkeep."):
        # Until version 0.1 a kind was the class's place at that time: modelkeep.attack.attacked.Attacked.
        name = kind.rpartition(".")[2]
        kind = _RENAMED.get(kind, re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower())
    if kind not in Result._kinds:
        for module, match in search(_KIND, f'kind="{kind}"'):
            if match["kind"] == kind:
                import_module(module)
    return Result._kinds.get(kind)


_RENAMED = {"modelkeep.govern.ledger.auditing.Audit": "ledger-audit"}
