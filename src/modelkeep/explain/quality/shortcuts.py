"""Shortcuts: a small place of the input that decides for a class, found by influence and tested by intervention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.explain.distributions import Line
from modelkeep.explain.influence import Influence
from modelkeep.explain.quality.regions import Region, candidates, is_picture, set_apart
from modelkeep.explain.quantities import AgainstAll

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["planted", "decisive", "none"]

# A class needs this many examples that the model gets right; each one is a donor of the region's content.
FEWEST = 8
# How many places are tested per class, and how many examples of each side get a transplant.
PLACES, MOST = 3, 64
# A gap of this share is far above that of natural contents (0.3 at most on clean digits) and below that of marks.
APART = 0.35
# A class that loses fewer examples than this without the place does not depend on it, however sure the number is.
MATTERS = 0.2


@dataclass(frozen=True)
class Suspect:
    """The place that decides most for one class, and what happens when its content changes hands.

    `turned` is the share of examples of other classes that turn into the class when they are given the content of
    this place; `lost` the share of its own that are no longer recognised with the content of others. The controls are
    the same transplants at random other places of equal size. `apart` is the gap between the content in the class
    and in all others (`regions.set_apart`), `share` the part of the class's positive attribution that lies here.
    """

    name: str
    region: Region
    share: float
    apart: float
    turned: Estimate
    turned_control: Estimate
    lost: Estimate
    lost_control: Estimate
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, eq=False)
class Shortcuts(Result, kind="shortcuts"):
    """The worst place of each class, those with a verdict first, and the classes that had `too_few` examples.

    "planted": a mark that sets the class apart from all others, and that the model follows. "decisive": a place that
    turns most examples of other classes; whether rightly, only a person who knows the data can tell. A feature of a
    table is never called planted: a measurement may well decide alone.

    `before` and `after: (k, ...)` show transplants of the first suspect, with what the model says on both.
    """

    examples: int
    suspects: tuple[Suspect, ...]
    too_few: tuple[str, ...]
    classes: tuple[str, ...] = field(repr=False)
    bounds: tuple[float, float] | None
    before: Tensor = field(repr=False)
    after: Tensor = field(repr=False)
    before_predicted: Tensor = field(repr=False)
    after_predicted: Tensor = field(repr=False)

    @property
    def found(self) -> tuple[Suspect, ...]:
        """The suspects with a verdict, the worst first."""
        return tuple(suspect for suspect in self.suspects if suspect.verdict != "none")

    def rows(self) -> list[tuple[str, str]]:
        rows = [("shortcuts", str(len(self.found)) if self.found else f"none found in {self.examples} examples")]
        for suspect in self.found:
            rows += [
                (f"class '{suspect.name}'", f"{suspect.verdict}: {suspect.region.name}"),
                ("  others that turn into it", f"{suspect.turned}; elsewhere {suspect.turned_control}"),
                ("  lost without it", f"{suspect.lost}; elsewhere {suspect.lost_control}"),
            ]
        if self.too_few:
            rows.append(("too few examples", ", ".join(self.too_few[:10]) + (" …" if len(self.too_few) > 10 else "")))
        return rows

    def draw(self) -> Figure:
        """Before and after the transplant of the worst place, which is outlined; for tables, how many turn."""
        from modelkeep.core import plots

        if not self.suspects:
            return super().draw()
        first = self.suspects[0]
        if first.region.rows is None or first.region.columns is None or self.before.shape[1] not in (1, 3):
            shown = {f"{s.name}: {s.region.name}": s.turned for s in self.suspects[:10]}
            return plots.bars(shown, x_label="others that turn into the class with its content")
        low, high = self.bounds or (float(self.before.min()), float(self.before.max()))
        titles = [f"seen as {self.classes[i]}" for i in (*self.before_predicted, *self.after_predicted)]
        pictures = torch.cat([self.before, self.after])
        figure = plots.image_grid(pictures, titles, columns=len(self.before), bounds=(low, high))
        for ax in figure.axes[: len(pictures)]:
            ax.add_patch(first.region.outline())
        return figure


@declare("measurement", "shortcuts", access="weights", paper="Leino2022, chapter 4")
class FindShortcuts:
    """Look for places that decide for a class by themselves, and test them by intervention.

    For each class, attribution (from the mean of all other classes) says on which small square of a picture, or which
    feature of a table, its examples agree. The content of that place is then given to examples of other classes, and
    taken from its own. Only what the data has in it can be found: without the mark in the data there is nothing to
    transplant.
    """

    examples: int = setting("Examples that are drawn from the data.", default=256, at_least=1)
    points: int = setting("Points on the line from the mean of the others.", default=4, at_least=1)
    batch_size: int = setting("Examples that are run at once.", default=32, at_least=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Shortcuts:
        """Search examples with their labels."""
        model.require_fit(data)
        seen = data.sample(min(self.examples, len(data)), seed).load()
        model.check_inputs(seen.x)
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            search = _Search(model, seen, self.points, self.batch_size, seed)
            present = sorted(set(seen.y.tolist()))
            enough = [label for label in present if len(search.own(label)) >= FEWEST and len(search.others(label)) > 1]
            suspects = []
            with progress.task("Shortcuts", len(enough)) as task:
                for label in enough:
                    suspects += search.worst(label)
                    task.advance(note=data.classes[label])
            suspects.sort(key=_gravity)
            before, after = search.choose_shown(suspects[0]) if suspects else (seen.x[:0], seen.x[:0])
            return Shortcuts(
                provenance=provenance(),
                examples=len(seen),
                suspects=tuple(suspects),
                too_few=tuple(data.classes[label] for label in present if label not in enough),
                classes=data.classes,
                bounds=model.bounds,
                before=before,
                after=after,
                before_predicted=search.predict(before),
                after_predicted=search.predict(after),
            )


class _Search:
    """The examples, what the model says about them, and the interventions."""

    def __init__(self, model: Model, data: Data, points: int, batch_size: int, seed: int) -> None:
        self.model, self.data, self.points, self.batch_size, self.seed = model, data, points, batch_size, seed
        self.predicted = self.predict(data.x)
        self.generator = torch.Generator().manual_seed(seed)

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.model.predict(part).cpu() for part in torch.split(x, self.batch_size) if len(part)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64)

    def own(self, label: int) -> torch.Tensor:
        """Examples of the class that are recognised, in random order."""
        return torch.nonzero((self.data.y == label) & (self.predicted == label)).flatten()[:MOST]

    def others(self, label: int) -> torch.Tensor:
        """Examples that are not of the class, and are not taken for it, in random order."""
        return torch.nonzero((self.data.y != label) & (self.predicted != label)).flatten()[:MOST]

    def worst(self, label: int) -> list[Suspect]:
        """The place of the class with the gravest verdict or the strongest effect, if any place speaks for it."""
        x, own = self.data.x, self.own(label)
        influence = Influence(
            quantity=AgainstAll(self.model.classes[label]),
            distribution=Line(x[self.data.y != label].mean(dim=0), count=self.points),
            batch_size=self.batch_size,
        )
        found = influence(self.model, x[own], seed=self.seed)
        assert found.attribution is not None
        mean = found.attribution.mean(dim=0)
        tested = [self.test(label, region, mean) for region in candidates(mean, self.data.features, PLACES)]
        return sorted(tested, key=_gravity)[:1]

    def test(self, label: int, region: Region, attribution: torch.Tensor) -> Suspect:
        """The four transplants of one place, and what they say."""
        own, others = self.own(label), self.others(label)
        rates = []
        for receivers, donors, wanted in ((others, own, True), (own, others, False)):
            here = region.mask(self.data.input_shape).expand(len(receivers), *self.data.input_shape)
            there = region.elsewhere(self.data.input_shape, len(receivers), self.generator)
            for masks in (here, there):
                after = self.predict(self._transplant(receivers, donors, masks))
                rates.append(Estimate.rate(int(((after == label) == wanted).sum()), len(receivers)))
        turned, turned_control, lost, lost_control = rates
        speaks_for = (attribution.sum(dim=0) if is_picture(self.data.input_shape) else attribution).clamp_min(0)
        apart = set_apart(self.data.x, self.data.y == label, region)
        verdict: Verdict = "none"
        clear = turned.low > turned_control.high or lost.low > lost_control.high
        most_turn = turned.low > max(0.5, turned_control.high)
        if region.feature is None and apart >= APART and (most_turn or (clear and lost.value >= MATTERS)):
            verdict = "planted"
        elif most_turn:
            verdict = "decisive"
        return Suspect(
            name=self.data.classes[label],
            region=region,
            share=float(attribution[region.mask(self.data.input_shape)].sum() / speaks_for.sum()),
            apart=apart,
            turned=turned,
            turned_control=turned_control,
            lost=lost,
            lost_control=lost_control,
            verdict=verdict,
        )

    def choose_shown(self, suspect: Suspect) -> tuple[torch.Tensor, torch.Tensor]:
        """Up to six examples of other classes before and after the transplant, those that turn first."""
        label = self.data.classes.index(suspect.name)
        receivers = self.others(label)
        mask = suspect.region.mask(self.data.input_shape).expand(len(receivers), *self.data.input_shape)
        after = self._transplant(receivers, self.own(label), mask)
        chosen = (self.predict(after) != label).int().argsort(stable=True)[:6]
        return self.data.x[receivers[chosen]], after[chosen]

    def _transplant(self, receivers: torch.Tensor, donors: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        drawn = donors[torch.randint(len(donors), (len(receivers),), generator=self.generator)]
        return torch.where(masks, self.data.x[drawn], self.data.x[receivers])


def _gravity(suspect: Suspect) -> tuple[int, float]:
    """What to sort by so that the gravest comes first."""
    return ("planted", "decisive", "none").index(suspect.verdict), -suspect.turned.value - suspect.lost.value
