"""Transplants: the content of a part of the input given to other classes, and taken from its own, with controls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.explain.distributions import Line
from modelkeep.explain.influence import Influence
from modelkeep.explain.quality.aspect_search import LARGEST_SLIDE, Case, aspects
from modelkeep.explain.quality.aspects import Aspect, OfInput
from modelkeep.explain.quality.inner_units import InnerUnits, inner_places
from modelkeep.explain.quality.regions import KINDS, Kind, Region, candidates, is_picture, set_apart
from modelkeep.explain.quantities import AgainstAll

# A class needs this many examples that the model gets right; each one is a donor of the region's content.
FEWEST = 8
# How many squares are tested per class, and how many examples of each side get a transplant.
PLACES, MOST = 3, 64
# From which gap on the content of a part is called planted. Each is above the gaps of clean networks that had an effect
# and below those of most marks, on Fashion-MNIST and CIFAR-10 with the seeds 100 to 102; that of squares was chosen on
# digits. That of colours is negative, because they vary in every class.
APART: dict[Kind, float] = {
    "square": 0.35,
    "frame": 0.15,
    "line": 0.3,
    "pixels": 0.3,
    "frequency": 0.2,
    "colour": -0.5,
    "moving": 0.35,
    "units": 0.35,
}
# Candidates with a smaller gap are not worth a test.
WORTH_A_TEST: dict[Kind, float] = {
    "frame": 0.1,
    "line": 0.0,
    "pixels": -0.1,
    "frequency": 0.0,
    "colour": -1.0,
    "moving": 0.2,
    "units": 0.2,
}
# A square whose loss costs the class nothing, as the gap between the legs of trousers, must be this far apart.
FAR_APART = 0.6
# A class that loses fewer examples than this without the part does not depend on it, however sure the number is.
MATTERS = 0.2
# What other classes need as well is content, and no mark: its loss may change at most this share of their answers. For
# colours, on which every answer depends a little, that says nothing.
NEEDED = 0.4
# In smaller pictures a quarter of the pixels or an eighth of the frequencies are most of what tells classes apart: of
# digits of 16 pixels a side, their own frequencies were called planted. The thresholds were chosen at 28 and 32.
SMALLEST = 20
# Only of a part that is at most this share of the whole is it remarkable that it decides, planted or not.
SMALL = 1 / 16


@dataclass(frozen=True)
class Tested:
    """One part of the input of one class, and what its transplants did. See `Suspect`."""

    label: int
    region: Region
    share: float | None
    apart: float
    turned: Estimate
    turned_control: Estimate
    lost: Estimate
    lost_control: Estimate
    verdict: Literal["planted", "decisive", "none"]
    aspect: Aspect | None


class Transplants:
    """The examples, what the model says about them, and the interventions."""

    def __init__(self, model: Model, data: Data, points: int, batch_size: int, seed: int) -> None:
        self.model, self.data, self.points, self.batch_size, self.seed = model, data, points, batch_size, seed
        self.predicted = self.predict(data.x)
        self.generator = torch.Generator().manual_seed(seed)
        self.picture = is_picture(data.input_shape)
        self.large = self.picture and min(data.input_shape[1:]) >= SMALLEST
        places = inner_places(model) if self.large else []
        self.inner = [InnerUnits(model, place, data.x, batch_size) for place in places]
        kinds = kinds_searched(data.input_shape, pictures=self.large, inside=bool(self.inner))
        self.searched: dict[Kind, tuple[int, int, float | None]] = dict.fromkeys(kinds, (0, 0, None))

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return self._labels(self.model.predict, x)

    def own(self, label: int) -> torch.Tensor:
        """Examples of the class that are recognised, in random order."""
        return torch.nonzero((self.data.y == label) & (self.predicted == label)).flatten()[:MOST]

    def others(self, label: int) -> torch.Tensor:
        """Examples that are not of the class, and are not taken for it, in random order."""
        return torch.nonzero((self.data.y != label) & (self.predicted != label)).flatten()[:MOST]

    def worst(self, label: int) -> list[Tested]:
        """The part with the gravest verdict or the strongest effect, if anything speaks for the class."""
        x, own = self.data.x, self.own(label)
        influence = Influence(
            quantity=AgainstAll(self.model.classes[label]),
            distribution=Line(x[self.data.y != label].mean(dim=0), count=self.points),
            batch_size=self.batch_size,
        )
        found = influence(self.model, x[own], seed=self.seed)
        assert found.attribution is not None
        mean = found.attribution.mean(dim=0)
        tested = []
        for region in candidates(mean, self.data.features, PLACES):
            tested.append(self._test_place(label, region, mean))
            self._note(region.kind, tested[-1].apart, tested=True)
        if self.large:
            case = Case(self.model, x, self.data.y == label, x[own], found.attribution.sum(dim=1))
            tested += self._test_all(label, aspects(case), mean)
        for units in self.inner:
            tested += self._test_all(label, units.aspects(self.data.y == label), None)
        return sorted(tested, key=gravity)[:1]

    def choose_shown(self, worst: Tested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Up to six examples of others before and after the transplant, and both answers: those that turn first."""
        receivers = self.others(worst.label)
        x, donors = self.data.x[receivers], self.data.x[self._draw(self.own(worst.label), len(receivers))]
        if isinstance(worst.aspect, OfInput):
            after = torch.cat([worst.aspect.give(*parts) for parts in self._parts(x, donors)])
            answers = self.predict(after)
        elif worst.aspect is not None:  # inside the network: there is no picture of it
            after, answers = x, self._labels(worst.aspect.given, x, donors)
        else:
            after = torch.where(worst.region.mask(self.data.input_shape), donors, x)
            answers = self.predict(after)
        chosen = (answers != worst.label).int().argsort(stable=True)[:6]
        return x[chosen], after[chosen], self.predicted[receivers[chosen]], answers[chosen]

    def _test_place(self, label: int, region: Region, attribution: torch.Tensor) -> Tested:
        """The four transplants of a square or a feature; the controls are the same at other places."""
        shape, own, others = self.data.input_shape, self.own(label), self.others(label)
        rates = []
        for receivers, donors, wanted in ((others, own, True), (own, others, False)):
            here = region.mask(shape).expand(len(receivers), *shape)
            for masks in (here, region.elsewhere(shape, len(receivers), self.generator)):
                drawn = self._draw(donors, len(receivers))
                after = self.predict(torch.where(masks, self.data.x[drawn], self.data.x[receivers]))
                rates.append(Estimate.rate(int(((after == label) == wanted).sum()), len(receivers)))
        apart = set_apart(self.data.x[:, region.mask(shape)], self.data.y == label)
        share = self._share(region, attribution)
        turned, turned_control, lost, lost_control = rates
        verdict = _verdict(region, apart, turned, turned_control, lost, lost_control)
        return Tested(label, region, share, apart, turned, turned_control, lost, lost_control, verdict, None)

    def _test_all(self, label: int, found: Iterable[Aspect], attribution: torch.Tensor | None) -> list[Tested]:
        """The candidates whose content sets the class apart enough to be worth a test, tested."""
        own = self.data.y == label
        tested = []
        for aspect in found:
            kind, apart = aspect.region.kind, aspect.apart(self.data.x, own)
            worth = apart >= WORTH_A_TEST[kind]
            self._note(kind, apart, tested=worth)
            if worth:
                tested.append(self._test(label, aspect, apart, attribution))
        return tested

    def _test(self, label: int, aspect: Aspect, apart: float, attribution: torch.Tensor | None) -> Tested:
        """The transplants of any other aspect; the controls are the same with other classes."""
        x, own, others = self.data.x, self.own(label), self.others(label)
        strangers = self._draw(others, len(others))
        given = self._labels(aspect.given, x[others], x[self._draw(own, len(others))])
        given_control = self._labels(aspect.given, x[others], x[strangers])
        taken = self._labels(aspect.taken, x[own], x[self._draw(others, len(own))])
        taken_control = self._labels(aspect.taken, x[others], x[strangers])
        rates = (
            Estimate.rate(int((given == label).sum()), len(others)),
            Estimate.rate(int((given_control == label).sum()), len(others)),
            Estimate.rate(int((taken != label).sum()), len(own)),
            Estimate.rate(int((taken_control != self.predicted[others]).sum()), len(others)),
        )
        share = self._share(aspect.region, attribution) if attribution is not None else None
        verdict = _verdict(aspect.region, apart, *rates, small=aspect.extent <= SMALL)
        return Tested(label, aspect.region, share, apart, *rates, verdict=verdict, aspect=aspect)

    def _share(self, region: Region, attribution: torch.Tensor) -> float | None:
        """The part of the positive attribution that lies in the region."""
        if not region.standing and region.feature is None:
            return None
        speaks_for = (attribution.sum(dim=0) if self.picture else attribution).clamp_min(0).sum()
        return float(attribution[region.mask(self.data.input_shape)].sum() / speaks_for) if speaks_for > 0 else None

    def _note(self, kind: Kind, apart: float, *, tested: bool) -> None:
        seen, times, largest = self.searched[kind]
        self.searched[kind] = (seen + 1, times + tested, apart if largest is None else max(apart, largest))

    def _draw(self, donors: torch.Tensor, count: int) -> torch.Tensor:
        return donors[torch.randint(len(donors), (count,), generator=self.generator)]

    def _parts(self, *inputs: torch.Tensor) -> Iterable[tuple[torch.Tensor, ...]]:
        return zip(*(torch.split(each, self.batch_size) for each in inputs), strict=True)

    def _labels(self, answer: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
        parts = [answer(*part).cpu() for part in self._parts(*inputs) if len(part[0])]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64)


def gravity(tested: Tested) -> tuple[int, float, float]:
    """What to sort by so that the gravest comes first; of equal effects, what sets the class apart most."""
    effect = round(tested.turned.value + tested.lost.value, 1)
    return ("planted", "decisive", "none").index(tested.verdict), -effect, -tested.apart


def kinds_searched(shape: tuple[int, ...], *, pictures: bool, inside: bool) -> tuple[Kind, ...]:
    """The kinds of parts that are looked for in inputs of this shape, pictures large enough and channels `inside`."""
    found: list[Kind] = ["square" if is_picture(shape) else "feature"]
    if pictures:
        found += ["frame", "line", "pixels", "frequency", "colour"]
        found += ["moving"] if max(shape[1:]) <= LARGEST_SLIDE else []
    return (*found, "units") if inside else tuple(found)


def not_looked_for(searched: Iterable[Kind], shape: tuple[int, ...]) -> tuple[str, ...]:
    """The kinds of parts that were not looked for in inputs of this shape, in words."""
    wanted: set[Kind] = set(KINDS) - {"feature"} if is_picture(shape) else {"feature", "units"}
    missing = [words for kind, words in KINDS.items() if kind in wanted - set(searched)]
    return (*missing, "combinations of several parts", "marks that change their look")


def _verdict(
    region: Region,
    apart: float,
    turned: Estimate,
    turned_control: Estimate,
    lost: Estimate,
    lost_control: Estimate,
    small: bool = True,
) -> Literal["planted", "decisive", "none"]:
    """What may be claimed. A feature of a table is never called planted: a measurement may well decide alone."""
    most_turn = turned.low > max(0.5, turned_control.high)
    clear = {"turned": turned.low > turned_control.high, "lost": lost.low > lost_control.high}
    matters = {"turned": turned.value >= MATTERS, "lost": lost.value >= MATTERS}
    follows = any(clear[effect] and matters[effect] for effect in clear)
    if region.kind == "square":  # a class that stands out by a place may be known by more than that place
        follows = any(clear.values()) and matters["lost"]
        most_turn = most_turn and (apart >= FAR_APART or (clear["lost"] and matters["lost"]))
    if region.kind not in ("square", "feature", "colour") and lost_control.value > NEEDED:
        return "none"
    if region.kind != "feature" and apart >= APART[region.kind] and (most_turn or follows):
        return "planted"
    return "decisive" if most_turn and small else "none"
