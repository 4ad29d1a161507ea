"""Exemplars: the examples of the data that activate a unit or channel most (Leino2022, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.examples import Stored, in_parts
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Result, Tensor, measured
from modelkeep.core.slices import Slice
from modelkeep.explain.orientation import oriented_slice, require_channels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAMPLED = 4096  # examples that the percentiles are taken from: enough for any picture of a distribution
SHARE = 0.9  # of the influence on a unit that its box holds


@dataclass(frozen=True, kw_only=True, eq=False)
class Exemplars(Result, kind="exemplars"):
    """For each of `units`, the `count` examples with its largest activation, the strongest first.

    The activation of a channel is its largest over all positions; `position: (units, count, dimensions)` says where in
    the feature map that was, and `box: (units, count, 4)` (top, left, bottom, right) which part of the input image
    holds nine tenths of the influence on it. `percentiles: (units, 101)` is the unit's activation over all data.
    """

    slice: str
    call: int | None
    spatial: bool
    units: tuple[int, ...]
    classes: tuple[str, ...] = field(repr=False)
    features: tuple[str, ...] | None = field(repr=False)
    bounds: tuple[float, float] | None
    index: Tensor = field(repr=False)
    activation: Tensor = field(repr=False)
    position: Tensor | None = field(repr=False)
    box: Tensor | None = field(repr=False)
    inputs: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)
    percentiles: Tensor = field(repr=False)

    def unit_name(self, i: int) -> str:
        """What results call the `i`-th of `units`."""
        return f"{'channel' if self.spatial else 'unit'} {self.units[i]}"

    def rows(self) -> list[tuple[str, str]]:
        rows = [("at", self.slice if self.call is None else f"{self.slice}, call {self.call}")]
        for i, (indices, values) in enumerate(zip(self.index.tolist(), self.activation.tolist(), strict=True)):
            best = ", ".join(
                f"{index} ({self.classes[label]}) {value:.3g}"
                for index, label, value in zip(indices, self.labels[i].tolist(), values, strict=True)
            )
            rows.append((self.unit_name(i), f"{best}; median of the data {float(self.percentiles[i, 50]):.3g}"))
        return rows

    def draw(self) -> Figure:
        """The examples of each unit in a row; where inputs are not pictures, how active each unit is."""
        from modelkeep.core import plots

        if self.inputs.ndim != 5 or self.inputs.shape[2] not in (1, 3):
            drawn = plots.figure()
            ax = plots.axes(drawn, f"Activation at {self.slice}", "percentile of the data", "activation")
            for i, percentiles in enumerate(self.percentiles.tolist()):
                ax.plot(range(101), percentiles, color=plots.PALETTE[i % len(plots.PALETTE)], label=self.unit_name(i))
            plots.legend(drawn, ax)
            return drawn
        titles = [
            f"{self.unit_name(i)}: {self.classes[label]}, {value:.3g}"
            for i in range(len(self.units))
            for label, value in zip(self.labels[i].tolist(), self.activation[i].tolist(), strict=True)
        ]
        inputs = self.inputs.flatten(0, 1)
        bounds = self.bounds if self.bounds is not None else (float(inputs.min()), float(inputs.max()))
        return plots.image_grid(inputs, titles, columns=self.index.shape[1], bounds=bounds)


@declare("measurement", "exemplars", access="weights", paper="Leino2022, section 3.3")
class FindExemplars:
    """The examples of the data that activate each of some units at a slice most.

    The data are run once, up to the slice and batch by batch; only the best so far are kept.

    >>> model = Model(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 2)), input_shape=(2,), classes=2)
    >>> data = Data(torch.tensor([[0.0, 3.0], [1.0, 2.0], [2.0, 1.0]]), torch.tensor([0, 0, 1]), ("0", "1"))
    >>> FindExemplars(slice="0", units=[0, 1], count=2)(model, data).index
    tensor([[2, 1],
            [0, 1]])
    """

    slice: str = setting("A name from `model.slices()`.")
    call: int | None = setting("Which call of a module that is called more than once.", default=None)
    units: Sequence[int] = setting("Channels of a feature map; else numbers of units, as in `flatten()`.")
    count: int = setting("Examples per unit; all of them where the data have fewer.", default=5, at_least=1)
    batch_size: int = setting("Examples that are run at once.", default=64, at_least=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Exemplars:
        """Search `data`. Labels are only shown. The seed draws the sample that the percentiles are taken from."""
        model.require_fit(data)
        x = data.x if isinstance(data.x, Stored) else model.check_inputs(data.x)
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            model.logits(x[:1])  # a damaged model is refused, also where the damage is above the slice
            require_channels(model, self.slice, self.call, axes=3)
            cutting = oriented_slice(model, self.slice, call=self.call)
            shape = tuple(cutting.h(model.check_inputs(x[:1])).value.shape[1:])
            chosen = check_units("FindExemplars", self.units, self.slice, shape)
            sample = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:_SAMPLED]
            with progress.task(f"Exemplars at {self.slice}", len(x)) as task:
                found = _stream(model, cutting, x, chosen, self.count, sample, self.batch_size, task)
            position = boxes = None
            if is_map(shape):
                position = torch.stack(torch.unravel_index(found.position, shape[1:]), dim=2)
                boxes = _boxes(model, cutting, x, chosen, found) if x.ndim == 4 else None
            percent = torch.linspace(0, 1, 101, dtype=torch.float64)
            return Exemplars(
                provenance=provenance(),
                slice=self.slice,
                call=self.call,
                spatial=is_map(shape),
                units=chosen,
                classes=data.classes,
                features=data.features,
                bounds=model.bounds,
                index=found.index,
                activation=found.activation,
                position=position,
                box=boxes,
                inputs=data.rows(found.index.flatten()).view(*found.index.shape, *data.input_shape),
                labels=data.y[found.index],
                percentiles=torch.quantile(found.sampled.double(), percent, dim=1).T.contiguous(),
            )


def is_map(shape: Sequence[int]) -> bool:
    """Whether a value of `shape` (of one example) is a feature map, so that its channels are what has a meaning."""
    return len(shape) == 3


def check_units(function: str, units: Sequence[int], slice: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """`units` as a tuple, refused where the value at the slice, of `shape`, has no such channel or unit."""
    most = shape[0] if is_map(shape) else torch.Size(shape).numel()
    bad = [unit for unit in units if not 0 <= unit < most]
    if bad or not units:
        what = "channels" if is_map(shape) else "units"
        raise bad_parameter(function, "units", f"{what} from 0 to {most - 1} of '{slice}'", list(units))
    return tuple(units)


@dataclass(frozen=True)
class _Found:
    """The best so far, each `(units, count)`, and the activations of the sampled examples."""

    activation: torch.Tensor
    index: torch.Tensor
    position: torch.Tensor
    sampled: torch.Tensor


def _stream(
    model: Model,
    cutting: Slice,
    x: torch.Tensor,
    units: Sequence[int],
    count: int,
    sample: torch.Tensor,
    batch_size: int,
    task: progress.Task,
) -> _Found:
    """Go through the data once and keep the best, with the positions (flat) of their maxima."""
    kept = torch.zeros(len(x), dtype=torch.bool).index_fill_(0, sample, True)
    parts: list[tuple[torch.Tensor, ...]] = []
    sampled = []
    for start, part in zip(range(0, len(x), batch_size), in_parts(x, batch_size), strict=True):
        with torch.no_grad():
            value = cutting.h(model.check_inputs(part)).value
        maps = value.flatten(2) if is_map(value.shape[1:]) else value.flatten(1)[:, :, None]
        here, position = (t.T.cpu() for t in maps[:, list(units)].max(dim=2))
        sampled.append(here[:, kept[start : start + batch_size]])
        parts.append((here, torch.arange(start, start + len(value)).expand_as(here), position))
        joined = [torch.cat(part, dim=1) for part in zip(*parts, strict=True)]
        # Stable, so that of equal examples the first in the data comes first.
        order = joined[0].argsort(dim=1, descending=True, stable=True)[:, :count]
        parts = [tuple(t.gather(1, order) for t in joined)]
        task.advance(len(value))
    activation, index, position = parts[0]
    return _Found(activation, index, position, torch.cat(sampled, dim=1))


def _boxes(model: Model, cutting: Slice, x: torch.Tensor, units: Sequence[int], found: _Found) -> torch.Tensor:
    """The part of each exemplar, `(units, count, 4)`, that holds most of the influence on the unit's maximum."""
    boxes = []
    for unit, examples, positions in zip(units, found.index, found.position, strict=True):
        inputs = model.check_inputs(x[examples.to(x.device)]).detach().requires_grad_()
        with torch.enable_grad():
            maps = cutting.h(inputs).value.flatten(2)[:, unit]
            best = maps.gather(1, positions.to(maps.device)[:, None]).sum()
            (gradient,) = torch.autograd.grad(best, inputs)
        boxes.append(_box(gradient.abs().sum(dim=1).cpu()))
    return torch.stack(boxes)


def _box(heat: torch.Tensor) -> torch.Tensor:
    """Top, left, bottom and right `(n, 4)` of the central part of `heat: (n, h, w)`; all of it where heat is 0."""
    edges = []
    tail = (1 - SHARE) / 4  # on each side of each axis
    for profile in (heat.double().sum(dim=2), heat.double().sum(dim=1)):
        total = profile.sum(dim=1, keepdim=True)
        inside = profile.cumsum(dim=1) / torch.where(total > 0, total, 1.0)
        size, empty = profile.shape[1], total[:, 0] == 0
        first = (inside <= tail).sum(dim=1)
        last = (inside < 1 - tail).sum(dim=1).clamp(max=size - 1) + 1
        edges.append((torch.where(empty, 0, first), torch.where(empty, size, last)))
    (top, bottom), (left, right) = edges
    return torch.stack([top, left, bottom, right], dim=1)
