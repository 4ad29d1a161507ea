"""Distributions of interest: the points over which an explanation is to be faithful (Leino2022, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, Protocol, get_args

import torch

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.method import declare, setting

Space = Literal["input", "slice"]
"""Where a distribution lives: among the inputs, or among the values at the slice (Leino2022, after eq. 3.1)."""


def _count(doc: str) -> Any:
    return setting(doc, default=50, at_least=1)


def _at() -> Any:
    return setting("Where it lives: among the inputs, or at the slice.", default="input", choices=get_args(Space))


class Distribution(Protocol):
    """A family of distributions, one around each explained point.

    `samples` yields, for points `centre: (n, ...)`, one sample per point and turn, all of the same weight
    (Leino2022, eq. 3.2). `origin` is the baseline that attribution is measured from, or None where there is none.
    """

    @property
    def at(self) -> Space: ...
    @property
    def count(self) -> int: ...
    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]: ...
    def origin(self, centre: torch.Tensor) -> torch.Tensor | None: ...


@declare("distribution", "point", kw_only=False)
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


@declare("distribution", "data-set", paper="Leino2022, eq. 3.2", kw_only=False)
class DataSet(Point):
    """Uniform on the data that is explained, or on its examples of one class: one explanation of all of them.

    It is streamed: memory does not grow with the number of examples.
    """

    of: str | None = setting("Only the examples of this class.", default=None)

    def __str__(self) -> str:
        return "the data set" if self.of is None else f"the examples of '{self.of}'"


@declare("distribution", "line", paper="Sundararajan2017; Leino2022, eq. 3.3", kw_only=False)
class Line:
    """Uniform on the segment from a baseline to the point: Integrated Gradients.

    The integral is taken by the midpoint rule; the error that is left shows in the result's efficiency gap.
    """

    baseline: float | torch.Tensor = setting("A number, or one point of the space.")
    count: int = _count("Points on the line.")
    at: Space = _at()

    def __post_init__(self) -> None:
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


@declare("distribution", "path", paper="Dhamdhere2019", kw_only=False)
class Path(Line):
    """The line at the input, followed at the slice, where the value takes a curved way (conductance).

    Attribution is then the sum of gradient times step of z; that of a `Line` is the mean gradient times the whole
    distance. Where all of the answer flows through the slice it is efficient. Where something passes around it, as a
    skip connection does, the gap is what flowed there. At the input both are integrated gradients.
    """

    at: Space = setting("A line at the slice is straight there.", default="input", choices=("input",))

    def ends(self, centre: torch.Tensor) -> Iterator[torch.Tensor]:
        """Where the step around each sample ends."""
        origin = self.origin(centre)
        return (torch.lerp(origin, centre, (i + 1) / self.count) for i in range(self.count))

    def __str__(self) -> str:
        return f"{super().__str__()}, followed through the slice"


@declare("distribution", "gaussian", paper="Smilkov2017", kw_only=False)
class Gaussian:
    """A normal distribution around the point (SmoothGrad).

    All points get the same noise, so that the explanation of a point does not depend on which others are
    explained with it.
    """

    sigma: float | torch.Tensor = setting("The standard deviation, a number or one per feature.")
    count: int = _count("Draws.")
    at: Space = _at()

    def __post_init__(self) -> None:
        sigma = torch.as_tensor(self.sigma)
        if not ((sigma >= 0) & torch.isfinite(sigma)).all() or not (sigma > 0).any():
            raise bad_parameter("Gaussian", "sigma", "a number above 0", self.sigma)

    def samples(self, centre: torch.Tensor, seed: int) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(self.count):
            # Drawn on the CPU, so that every device sees the same numbers.
            noise = torch.randn(centre.shape[1:], generator=generator, dtype=centre.dtype)
            yield centre + (self.sigma * noise).to(centre.device)

    def origin(self, centre: torch.Tensor) -> torch.Tensor | None:
        return None

    def __str__(self) -> str:
        sigma = "a given sigma" if isinstance(self.sigma, torch.Tensor) else f"sigma {self.sigma:g}"
        return f"Gaussian of {sigma} at the {self.at}, {self.count} draws"


@declare("distribution", "points", kw_only=False)
class Points:
    """Uniform on given points, whatever the explained point."""

    values: torch.Tensor = setting("The points, `(count, ...)`: inputs or values at the slice.")
    at: Space = _at()

    def __post_init__(self) -> None:
        if len(self.values) < 1:
            raise bad_parameter("Points", "values", "at least one point", len(self.values))
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


@declare("distribution", "sampler", kw_only=False)
class Sampler:
    """What a function draws: it maps the explained points `(n, ...)` and a seeded generator to as many samples."""

    name: str = setting("What results call the distribution.")
    function: Callable[[torch.Tensor, torch.Generator], torch.Tensor] = setting("The function.")
    count: int = _count("Draws.")
    at: Space = _at()

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
