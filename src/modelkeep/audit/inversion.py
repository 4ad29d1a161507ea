"""Do its weights show what it learned from?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import torch

from modelkeep.audit.cost import Cost
from modelkeep.audit.evidence import can_be_shown, show
from modelkeep.audit.findings import Finding, Section
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.core.similarity import nearest
from modelkeep.privacy import Inverted, InvertModel
from modelkeep.report.measure import Measure, percent

TITLE = "Do its weights show what it learned from?"
LEAD = (
    "From the weights alone, and from noise, pictures are made that the model takes for each class. Each is compared "
    "with examples (SSIM, 1 for the same picture): is it like its class, and is it nearer to training examples than to "
    "equally many others?"
)
PICTURES, FEWEST_CLASSES = 40, 8
"""Pictures that are made at least, the same number of each class; and classes below which no count of them is sure."""
SURE = 0.99
"""The level of the interval by which the pictures are said to be nearer to training examples."""
ALIKE = 0.5
"""The SSIM from which on a picture is called like an example."""
_MOST_VALUES, _MOST_EXAMPLES = 20_000_000, 1_000  # of the examples that are compared with
_SHOWN = 6


@dataclass(frozen=True)
class Likeness:
    """What the pictures are like: how many are like their class, and in how many classes training examples win."""

    own: Estimate
    best: float
    nearer: Estimate | None


@declare("check", "inversion", access="weights", paper="Leino2022, eq. 8.1")
class CheckInversion:
    """Pictures made from the weights: are they like their class, and nearer to training examples than to others?"""

    train: Data | None = setting("The training data.", default=None, repr=False)
    steps: int = setting("Steps of descent.", default=128, at_least=1)

    def cost(self, model: Model, data: Data) -> Cost:
        """Each step asks for all pictures and their gradients; each is then compared with the examples."""
        count = per_class(model) * len(model.classes)
        compared = count * 2 * _most(data) * data.x[:1].numel()
        return Cost(
            2 * count * self.steps,
            seconds=1e-8 * compared,
            instead="`modelkeep privacy` and InvertModel of modelkeep.privacy look at fewer pictures.",
        )

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs pictures with a range."""
        if not can_be_shown(data.input_shape) or model.bounds is None:
            return "It makes pictures, and these inputs are none, or have no range (--bounds)."
        return ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Make the pictures, and compare them with a sample of the data and with as much of the training data."""
        count = min(_most(data), len(data) if self.train is None else min(len(data), len(self.train)))
        others = data.sample(count, seed).load()
        inverted = InvertModel(per_class=per_class(model), steps=self.steps)(model, others, seed=seed)
        members = None if self.train is None else self.train.sample(count, seed).load()
        likeness = compare(inverted, others, members)
        measures = [Measure(f"pictures that are like an example of their class (SSIM {ALIKE} or more)", likeness.own)]
        if likeness.nearer is not None:
            told = "classes whose pictures are nearer to training examples (chance: 50 %)"
            measures.insert(0, Measure(told, likeness.nearer))
        finding = judge(likeness, count)
        shown = _choose(inverted)
        compared_with = others if inverted.example is None else others.take(inverted.example[shown])
        titles = [
            *(f"made for {model.classes[i]}" for i in inverted.labels[shown].tolist()),
            *["most like it"] * len(shown),
        ]
        caption = "Pictures made from the weights (above), and the most similar example of the data (below)."
        pictures = show(
            torch.cat([inverted.x[shown], compared_with.x]),
            titles,
            f"{len(shown)} pictures made from the weights; {percent(likeness.own.value)} of all are like their class",
            caption,
            model.bounds,
            len(shown),
        )
        found = finding.status == "fail"
        finding = replace(
            finding,
            value=measures[0],
            access="weights",
            queries=2 * len(inverted.labels) * self.steps,
            evidence=pictures if found else (),
        )
        return Section(TITLE, LEAD, tuple(measures), (finding,), () if found else pictures)


def per_class(model: Model) -> int:
    """How many pictures of each class are made."""
    return max(1, ceil(PICTURES / len(model.classes)))


def _most(data: Data) -> int:
    return max(1, min(_MOST_EXAMPLES, len(data), _MOST_VALUES // max(1, data.x[:1].numel())))


def compare(inverted: Inverted, others: Data, members: Data | None) -> Likeness:
    """What the pictures are like, by the examples that the model has not seen and by those that it has.

    Pictures of one class are alike, so that classes are counted and not pictures.
    """
    span = inverted.bounds[1] - inverted.bounds[0]
    example, outside = inverted.example, inverted.similarity
    if example is None or outside is None:
        example, outside = nearest(inverted.x, others.x, span)
    own = (others.y[example] == inverted.labels) & (outside >= ALIKE)
    rate = Estimate.rate(int(own.sum()), len(own))
    if members is None:
        return Likeness(rate, float(outside.max()), None)
    _, inside = nearest(inverted.x, members.x, span)
    ahead = torch.stack(
        [(inside - outside)[inverted.labels == label].mean() for label in sorted(set(inverted.labels.tolist()))]
    )
    return Likeness(rate, float(inside.max()), Estimate.rate(int((ahead > 0).sum()), len(ahead), SURE))


def judge(likeness: Likeness, compared: int) -> Finding:
    """What the pictures give away; too few classes, or no training data, are never good news."""
    own, nearer = likeness.own, likeness.nearer
    measured = (
        f"{percent(own.value)} of {own.n} pictures ({percent(own.low)} to {percent(own.high)}) are most like an "
        f"example of their own class, with an SSIM of {ALIKE} or more; the best has {likeness.best:.2f}."
    )
    if nearer is not None:
        measured += (
            f" In {round(nearer.value * nearer.n)} of {nearer.n} classes they are nearer to {compared:,} training "
            f"examples than to as many others ({percent(nearer.low)} to {percent(nearer.high)}, 99 % interval; half by "
            "chance)."
        )
    mend = "Keep the weights to yourself, or train with differential privacy (`modelkeep train-privately`)."
    if nearer is not None and nearer.low > 0.5:
        return Finding(
            id="inversion.training-examples",
            severity="medium",
            title="Pictures made from its weights are nearer to its training examples than chance allows",
            measured=measured,
            meaning="Whoever has the weights learns something of the training examples themselves.",
            remedy=mend,
            weight=nearer.value,
        )
    if own.low > 0.5:
        return Finding(
            id="inversion.class-looks",
            severity="low",
            title="Its weights show what its classes look like",
            measured=measured,
            meaning="Where a class is a person or a secret, whoever has the weights sees it. Where it is a kind of "
            "thing, this gives nothing away.",
            remedy=mend,
            weight=own.value,
        )
    if nearer is not None and nearer.n < FEWEST_CLASSES:
        return Finding(
            id="inversion.unclear",
            severity="unclear",
            title="Too few classes to say whether its weights show training examples",
            measured=measured,
            meaning=f"With fewer than {FEWEST_CLASSES} classes chance alone may look like this.",
            remedy="Look at the pictures below.",
        )
    return Finding(
        id="inversion.nothing-shown",
        severity="good",
        title="Pictures made from its weights show no training example",
        measured=measured,
        meaning="This descent found none. One that knows more, such as what natural pictures look like, may.",
        remedy="Nothing.",
        partial="" if nearer is not None else "Whether they are nearer to training examples: that needs --train TRAIN.",
    )


def _choose(inverted: Inverted) -> list[int]:
    """The pictures that are most like an example, at most one of each class."""
    order: Sequence[int] = range(len(inverted.labels))
    if inverted.similarity is not None:
        order = inverted.similarity.argsort(descending=True, stable=True).tolist()
    chosen: dict[int, int] = {}
    for i in order:
        chosen.setdefault(int(inverted.labels[i]), i)
    return list(chosen.values())[:_SHOWN]
