"""Distributions of interest: the points over which an explanation is to be faithful (thesis 002, 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch

from modelkeep.core.errors import InputError, bad_parameter

Space = Literal["input", "slice"]
"""Where a distribution lives: among the inputs, or among the values at the slice (thesis 002, after equation 3.1)."""


class Distribution(Protocol):
    """A family of distributions, one around each explained point.

    `samples` yields, for points `centre: (n, ...)`, one sample per point and turn, all of the same weight
    (equation 3.2). `origin` is the baseline that attribution is measured from, or None where there is none.
    """

    @property
    def at(self) -> Space: ...
    @property
    def count(self) -> int: ...
    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]: ...
    def origin(self, centre: torch.Tensor) -> torch.Tensor | None: ...


@dataclass(frozen=True)
class Point:
    """All mass on the explained point: the model's behaviour there and nowhere else (a saliency map)."""

    at: ClassVar[Space] = "input"
    count: ClassVar[int] = 1

    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]:
        yield centre

    def origin(self, centre: torch.Tensor) -> torch.Tensor | None:
        return None

    def __str__(self) -> str:
        return "the point"


@dataclass(frozen=True)
class DataSet(Point):
    """Uniform on the data that is explained, or on its examples `of` one class: one explanation of them all.

    This is the expectation of equation 3.2 over a collection of points. It is streamed: what is kept does not grow
    with the number of examples.
    """

    of: str | None = None

    def __str__(self) -> str:
        return "the data set" if self.of is None else f"the examples of '{self.of}'"


@dataclass(frozen=True, eq=False)
class Line:
    """Uniform on the segment from `baseline` to the point: Integrated Gradients (equation 3.3).

    The integral is taken by the midpoint rule with `count` points; the error that is left shows in the result's
    efficiency gap. `baseline` is a number or one point of the space `at`: an input, or a value at the slice.
    """

    baseline: float | torch.Tensor
    count: int = 50
    at: Space = "input"

    def __post_init__(self) -> None:
        _check("Line", self.count, self.at)
        if not torch.isfinite(torch.as_tensor(self.baseline)).all():
            raise bad_parameter("Line", "baseline", "finite", self.baseline)

    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]:
        origin = self.origin(centre)
        for i in range(self.count):
            yield torch.lerp(origin, centre, (i + 0.5) / self.count)

    def origin(self, centre: torch.Tensor) -> torch.Tensor:
        baseline = torch.as_tensor(self.baseline, dtype=centre.dtype, device=centre.device)
        if baseline.ndim > 0 and baseline.shape != centre.shape[1:]:
            raise InputError(
                f"The baseline of a Line at the {self.at} must be a number or have the shape "
                f"{tuple(centre.shape[1:])} of one point there. Got shape {tuple(baseline.shape)}."
            )
        return baseline.expand_as(centre)

    def __str__(self) -> str:
        start = "a given baseline" if isinstance(self.baseline, torch.Tensor) else f"{self.baseline:g}"
        return f"line from {start} at the {self.at}, {self.count} points"


@dataclass(frozen=True, eq=False)
class Path(Line):
    """The line at the input, followed at the slice, where the value z goes a curved way (conductance).

    Attribution is then the sum of gradient times step of z, which is efficient at every slice; that of a `Line` is
    the mean gradient times the whole distance. At the input both are integrated gradients.
    """

    at: Space = "input"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at != "input":
            raise bad_parameter("Path", "at", "'input'; a line at the slice is straight there", self.at)

    def ends(self, centre: torch.Tensor) -> Iterator[torch.Tensor]:
        """Where the step around each sample ends."""
        origin = self.origin(centre)
        return (torch.lerp(origin, centre, (i + 1) / self.count) for i in range(self.count))

    def __str__(self) -> str:
        return f"{super().__str__()}, followed through the slice"


@dataclass(frozen=True)
class Gaussian:
    """A normal distribution of standard deviation `sigma` around the point (SmoothGrad), `count` draws from it.

    All points get the same noise, so that the explanation of a point does not depend on which others are
    explained with it.
    """

    sigma: float
    count: int = 50
    at: Space = "input"

    def __post_init__(self) -> None:
        _check("Gaussian", self.count, self.at)
        if not 0 < self.sigma < float("inf"):
            raise bad_parameter("Gaussian", "sigma", "a number above 0", self.sigma)

    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(self.count):
            # Drawn on the CPU, so that every device sees the same numbers.
            noise = torch.randn(centre.shape[1:], generator=generator, dtype=centre.dtype)
            yield centre + self.sigma * noise.to(centre.device)

    def origin(self, centre: torch.Tensor) -> torch.Tensor | None:
        return None

    def __str__(self) -> str:
        return f"Gaussian of sigma {self.sigma:g} at the {self.at}, {self.count} draws"


@dataclass(frozen=True, eq=False)
class Points:
    """Uniform on the given `values: (count, ...)`, inputs or values at the slice, whatever the explained point."""

    values: torch.Tensor
    at: Space = "input"

    def __post_init__(self) -> None:
        _check("Points", len(self.values), self.at)
        if not torch.isfinite(self.values).all():
            raise bad_parameter("Points", "values", "finite", "NaN or infinity")

    @property
    def count(self) -> int:
        return len(self.values)

    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]:
        values = self.values.to(centre)
        if values.shape[1:] != centre.shape[1:]:
            raise InputError(
                f"Points at the {self.at} must have the shape (count, *{tuple(centre.shape[1:])}). "
                f"Got {tuple(values.shape)}."
            )
        return (value.expand_as(centre) for value in values)

    def origin(self, centre: torch.Tensor) -> torch.Tensor | None:
        return None

    def __str__(self) -> str:
        return f"{self.count} given points at the {self.at}"


@dataclass(frozen=True)
class Sampler:
    """Whatever `function` draws: it maps the explained points `(n, ...)` and a seeded generator to as many samples.

    Results call the distribution `name`.
    """

    name: str
    function: Callable[[torch.Tensor, torch.Generator], torch.Tensor]
    count: int = 50
    at: Space = "input"

    def __post_init__(self) -> None:
        _check("Sampler", self.count, self.at)

    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(self.count):
            sample = self.function(centre, generator)
            if sample.shape != centre.shape or not torch.isfinite(sample).all():
                raise InputError(
                    f"The sampler '{self.name}' must give one finite sample per point, {tuple(centre.shape)}. Got "
                    f"{'NaN or infinity' if sample.shape == centre.shape else tuple(sample.shape)}."
                )
            yield sample.to(centre)

    def origin(self, centre: torch.Tensor) -> torch.Tensor | None:
        return None

    def __str__(self) -> str:
        return f"{self.name} at the {self.at}, {self.count} draws"


def _check(function: str, count: int, at: Space) -> None:
    if count < 1:
        raise bad_parameter(function, "count", "at least 1", count)
    if at not in ("input", "slice"):
        raise bad_parameter(function, "at", "'input' or 'slice'", at)
