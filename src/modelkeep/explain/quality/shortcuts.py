"""Shortcuts: a part of the input that decides for a class, found by influence and content, tested by intervention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.explain.quality.regions import KINDS, Kind, Region, outline
from modelkeep.explain.quality.transplants import FEWEST, Transplants, gravity, not_looked_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["planted", "decisive", "none"]


@dataclass(frozen=True)
class Suspect:
    """The part that decides most for one class, and what happens when its content changes hands.

    `turned` is the share of examples of other classes that turn into the class when they are given the content of
    this part; `lost` the share of its own that are no longer recognised without it. `apart` is the gap between the
    content in the class and in all others (`regions.set_apart`), `share` the part of the class's positive attribution
    that lies here (None where the part is at no place of the input).

    The controls of a square or a feature are the same transplants at random other places of equal size. Those of all
    else are the same part of other classes, and what its loss does to other classes.
    """

    name: str
    region: Region
    share: float | None
    apart: float
    turned: Estimate
    turned_control: Estimate
    lost: Estimate
    lost_control: Estimate
    verdict: Verdict


@dataclass(frozen=True)
class Searched:
    """One kind of part that was looked for: how many candidates, how many of them were tested, the largest gap."""

    kind: Kind
    candidates: int
    tested: int
    largest_gap: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Shortcuts(Result, kind="shortcuts"):
    """The worst part of each class, those with a verdict first, and the classes that had `too_few` examples.

    "planted": a mark that sets the class apart from all others, and that the model follows. "decisive": a small part
    that turns most examples of other classes; whether rightly, only a person who knows the data can tell. A feature of
    a table is never called planted: a measurement may well decide alone. `searched` are the kinds of parts that were
    looked for, and `not_searched` those that were not: "none found" is said of the former alone.

    `before` and `after: (k, ...)` show transplants of the first suspect, with what the model says on both.
    """

    examples: int
    suspects: tuple[Suspect, ...]
    too_few: tuple[str, ...]
    searched: tuple[Searched, ...] = ()
    not_searched: tuple[str, ...] = ()
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

    @property
    def kinds(self) -> str:
        """What was looked for, in words."""
        return ", ".join(KINDS[each.kind] for each in self.searched)

    def rows(self) -> list[tuple[str, str]]:
        rows = [("shortcuts", str(len(self.found)) if self.found else f"none found in {self.examples} examples")]
        for suspect in self.found:
            rows += [
                (f"class '{suspect.name}'", f"{suspect.verdict}: {suspect.region.name}"),
                ("  others that turn into it", f"{suspect.turned}; control {suspect.turned_control}"),
                ("  lost without it", f"{suspect.lost}; control {suspect.lost_control}"),
            ]
        if self.too_few:
            rows.append(("too few examples", ", ".join(self.too_few[:10]) + (" …" if len(self.too_few) > 10 else "")))
        rows.append(("looked for", self.kinds or "nothing"))
        if self.not_searched:
            rows.append(("not looked for", ", ".join(self.not_searched)))
        return rows

    def draw(self) -> Figure:
        """Before and after the transplant of the worst part, outlined if it stands still; for tables, how many turn."""
        from modelkeep.core import plots

        if not self.suspects:
            return super().draw()
        first = self.suspects[0]
        if self.before.ndim != 4 or self.before.shape[1] not in (1, 3) or first.region.feature is not None:
            shown = {f"{s.name}: {s.region.name}": s.turned for s in self.suspects[:10]}
            return plots.bars(shown, x_label="others that turn into the class with its content")
        low, high = self.bounds or (float(self.before.min()), float(self.before.max()))
        titles = [f"seen as {self.classes[i]}" for i in (*self.before_predicted, *self.after_predicted)]
        pictures = torch.cat([self.before, self.after])
        figure = plots.image_grid(pictures, titles, columns=len(self.before), bounds=(low, high))
        if first.region.standing:
            inside = first.region.mask(tuple(self.before.shape[1:]))[0]
            for ax in figure.axes[: len(pictures)]:
                outline(ax, inside)
        return figure


@declare("measurement", "shortcuts", access="weights", paper="Leino2022, chapter 4")
class FindShortcuts:
    """Look for parts of the input that decide for a class by themselves, and test them by intervention.

    For each class, attribution (from the mean of all other classes) says on which small square of a picture, row,
    column or pattern, or on which feature of a table, its examples agree; and the data say which pixels, frequencies,
    colours or channels set the class apart from all others. The content of each candidate is then given to examples
    of other classes, and taken from its own. Only what the data has in it can be found: without the mark in the data
    there is nothing to transplant. The result says which kinds were looked for.
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
            search = Transplants(model, seen, self.points, self.batch_size, seed)
            present = sorted(set(seen.y.tolist()))
            enough = [label for label in present if len(search.own(label)) >= FEWEST and len(search.others(label)) > 1]
            tested = []
            with progress.task("Shortcuts", len(enough)) as task:
                for label in enough:
                    tested += search.worst(label)
                    task.advance(note=data.classes[label])
            tested.sort(key=gravity)
            shown = search.choose_shown(tested[0]) if tested else (seen.x[:0],) * 2 + (search.predicted[:0],) * 2
            before, after, before_predicted, after_predicted = shown
            return Shortcuts(
                provenance=provenance(),
                examples=len(seen),
                suspects=tuple(
                    Suspect(
                        name=data.classes[t.label],
                        region=t.region,
                        share=t.share,
                        apart=t.apart,
                        turned=t.turned,
                        turned_control=t.turned_control,
                        lost=t.lost,
                        lost_control=t.lost_control,
                        verdict=t.verdict,
                    )
                    for t in tested
                ),
                too_few=tuple(data.classes[label] for label in present if label not in enough),
                searched=tuple(Searched(kind, *numbers) for kind, numbers in search.searched.items()),
                not_searched=not_looked_for(search.searched, data.input_shape),
                classes=data.classes,
                bounds=model.bounds,
                before=before,
                after=after,
                before_predicted=before_predicted,
                after_predicted=after_predicted,
            )
