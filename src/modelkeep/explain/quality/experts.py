"""Experts: keep only the units that matter most for a class, and see what the model still does.

The experiment of Leino2018, from which the expert mitigation of bias comes (Leino2022, chapter 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.core.slices import Slice
from modelkeep.explain.distributions import Distribution, Point
from modelkeep.explain.influence import Influence
from modelkeep.explain.orientation import oriented_slice, require_channels
from modelkeep.explain.quantities import AgainstAll
from modelkeep.explain.units import expand_baseline, spread_over, units_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Kept:
    """What the model does on the data with `units` of the slice left: on all classes, and on the one asked for.

    `precision` is None where nothing is taken for the class any more.
    """

    units: int
    accuracy: Estimate
    recall: Estimate
    precision: Estimate | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Experts(Result, kind="experts"):
    """How far the most influential units of a slice carry a class.

    `kept` keeps the most influential ones, `random` as many that are drawn anew for each example, and `whole` all.
    `order: (units,)` are the units from the most influential on, and `influence: (units,)` their mean influence.
    """

    slice: str
    name: str
    kept: tuple[Kept, ...]
    random: tuple[Kept, ...]
    whole: Kept
    order: Tensor = field(repr=False)
    influence: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("class", f"'{self.name}', at {self.slice}"),
            ("units", f"{self.whole.units}, the strongest: {', '.join(str(int(i)) for i in self.order[:5])}"),
            ("recall with all", str(self.whole.recall)),
            ("precision with all", _or_none(self.whole.precision)),
        ]
        for kept, random in zip(self.kept, self.random, strict=True):
            rows.append((f"recall with {kept.units}", f"{kept.recall}; random units {random.recall}"))
            rows.append((f"precision with {kept.units}", f"{_or_none(kept.precision)}"))
        return rows

    def draw(self) -> Figure:
        """Recall over the number of units, for the most influential ones and for random ones."""
        from modelkeep.core import plots

        series = {"the most influential": self.kept, "random units": self.random}
        return plots.curve(
            [float(kept.units) for kept in (*self.kept, self.whole)],
            {name: [kept.recall for kept in (*found, self.whole)] for name, found in series.items()},
            title=f"How many units of {self.slice} it takes to recognise '{self.name}'",
            x_label="units that are kept",
            y_label="recall",
        )


@declare("measurement", "experts", access="weights", paper="Leino2018")
class MeasureExperts:
    """Keep the units of the largest absolute mean influence on a class, and measure what the model still does.

    Influence is that on the class's score against all others (`AgainstAll`), over the examples of the class, so that
    units which speak against it count too. A unit is a whole channel where the slice has channels.
    """

    slice: str = setting("A name from `model.slices()`.")
    call: int | None = setting("Which call of a module that is called more than once.", default=None)
    name: str = setting("The class.")
    keep: Sequence[int] = setting("How many units to keep.", default=(1, 2, 4, 8, 16, 32))
    baseline: float | Literal["mean"] = setting("What the other units become: a number, or 'mean'.", default=0.0)
    distribution: Distribution = setting("Over which points the influence is taken.", default=Point())
    batch_size: int = setting("Examples that are run at once.", default=256, at_least=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Experts:
        """Choose the units on the examples of the class, and measure on all of them. The seed draws random units."""
        if not self.keep or min(self.keep) < 0:
            raise bad_parameter("MeasureExperts", "keep", "numbers of units of at least 0", self.keep)
        if isinstance(self.baseline, str) and self.baseline != "mean":
            raise bad_parameter("MeasureExperts", "baseline", "a number or 'mean'", self.baseline)
        model.require_fit(data)
        x, label = model.check_inputs(data.x), data.class_index(self.name)
        if not (data.y == label).any():
            raise InputError(
                f"'{data.name}' has no example of '{self.name}', so there is nothing to choose its units by."
            )
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            influence = Influence(
                slice=self.slice,
                call=self.call,
                quantity=AgainstAll(model.classes[label]),
                distribution=self.distribution,
                batch_size=self.batch_size,
            )
            explained = influence(model, x[(data.y == label).to(x.device)], seed=seed)
            mean = units_of(explained.influence, self.slice).mean(dim=0)
            order = mean.abs().argsort(descending=True, stable=True)
            require_channels(model, self.slice, self.call, axes=3)
            cutting = oriented_slice(model, self.slice, call=self.call, skip="hold")
            away = _mean_value(cutting, x, self.batch_size) if self.baseline == "mean" else self.baseline
            counts = sorted({count for count in self.keep if count < len(mean)})
            rank = order.argsort().expand(len(x), -1)
            drawn = torch.rand(len(x), len(mean), generator=torch.Generator().manual_seed(seed)).argsort(dim=1)
            with progress.task(f"Experts at {self.slice}", 2 * len(counts) + 1) as task:

                def measure(ranks: torch.Tensor, count: int) -> Kept:
                    predicted = []
                    for part in torch.split(torch.arange(len(x)), self.batch_size):
                        with torch.no_grad():
                            cut = cutting.h(x[part])
                            kept = spread_over(ranks[part] < count, cut.value, self.slice)
                            value = torch.where(kept, cut.value, expand_baseline(away, cut.value, "MeasureExperts"))
                            predicted.append(cutting.g(cut.replace(value)).argmax(dim=1).cpu())
                    task.advance()
                    return _count(torch.cat(predicted), data.y, label, count)

                return Experts(
                    provenance=provenance(),
                    slice=self.slice,
                    name=self.name,
                    kept=tuple(measure(rank, count) for count in counts),
                    random=tuple(measure(drawn, count) for count in counts),
                    whole=measure(rank, len(mean)),
                    order=order,
                    influence=mean[order],
                )


def _mean_value(cutting: Slice, x: torch.Tensor, batch_size: int) -> torch.Tensor:
    """The mean value at the slice over the data, `slice shape`."""
    with torch.no_grad():
        total = sum(cutting.h(part).value.double().sum(dim=0) for part in torch.split(x, batch_size))
    assert isinstance(total, torch.Tensor)
    return total / len(x)


def _count(predicted: torch.Tensor, labels: torch.Tensor, label: int, units: int) -> Kept:
    of_class, taken = labels == label, predicted == label
    hits = int((of_class & taken).sum())
    return Kept(
        units,
        Estimate.rate(int((predicted == labels).sum()), len(labels)),
        Estimate.rate(hits, int(of_class.sum())),
        Estimate.rate(hits, int(taken.sum())) if taken.any() else None,
    )


def _or_none(estimate: Estimate | None) -> str:
    return "nothing is taken for it" if estimate is None else str(estimate)
