"""Is there a small trigger that turns every input into one class?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from modelkeep.audit.cost import Cost
from modelkeep.audit.evidence import can_be_shown, show
from modelkeep.audit.findings import Finding, Section
from modelkeep.core import plots, progress
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

TITLE = "Is there a hidden trigger?"
LEAD = (
    "For each class, the smallest patch is looked for that turns inputs of all other classes into it. Every class has "
    "one; a class whose patch is far smaller than those of the others was perhaps trained to obey it. A patch counts "
    "only if it works on examples that it was not made from. A trigger that is no patch would not be seen."
)
GOAL, WORKS = 0.95, 0.75
"""A trigger is made to turn the first share of its batch, and counts if it turns the second of new examples."""
SMALL = 0.5
"""A class stands out whose trigger is smaller than this share of the median of the others."""
OUTLIER = 2.0
"""… and this many deviations below it, by the median absolute deviation (Wang2019)."""
MOST_CLASSES, FEWEST = 20, 40
_BATCH, _RATE = 32, 0.1


@dataclass(frozen=True)
class Trigger:
    """The smallest patch for one class: `mask: (h, w)`, `pattern: (c, h, w)`, its area, and what it turns."""

    label: int
    mask: torch.Tensor
    pattern: torch.Tensor
    turned: Estimate

    @property
    def area(self) -> float:
        """The sum of the mask, in pixels."""
        return float(self.mask.sum())

    def put_on(self, x: torch.Tensor) -> torch.Tensor:
        """The inputs with the trigger."""
        return torch.lerp(x, self.pattern.expand_as(x), self.mask)


@declare("check", "backdoor", access="weights", paper="Wang2019")
class CheckBackdoor:
    """The smallest patch that turns all inputs into a class, for each class, and whether one stands out."""

    examples: int = setting("Examples to look at, drawn by the seed.", default=256, at_least=1)
    search: int = setting("Steps of the search for the patches.", default=400, at_least=1)

    def cost(self, model: Model, data: Data) -> Cost:
        """Each step asks for a batch and its gradient, for each class."""
        classes = min(MOST_CLASSES, len(model.classes))
        return Cost(2 * self.search * _BATCH * classes + classes * min(self.examples, len(data)))

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs pictures with a range, of several classes."""
        if not can_be_shown(data.input_shape) or model.bounds is None:
            return "It looks for patches on pictures, and these inputs are none, or have no range (--bounds)."
        if len(model.classes) < 3:
            return "It compares the patches of the classes with each other, and needs three classes or more."
        return f"It needs {FEWEST} examples or more, and has {len(data)}." if len(data) < FEWEST else ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Look for triggers by one half of a sample; try them on the other."""
        data = data.sample(min(self.examples, len(data)), seed).load()
        made_from, new = data.split(0.5, 0.5, seed=seed)
        with model.frozen(seed):
            triggers = invert(model, made_from, new, self.search, seed)
            worst = min(triggers, key=lambda trigger: trigger.area / max(trigger.turned.value, 1e-6))
            own = _lost_without(model, new, worst)
        finding = judge(triggers, worst, own, model.classes)
        areas = {
            model.classes[each.label]: Estimate(each.area, each.area, each.area, each.turned.n)
            for each in sorted(triggers, key=lambda each: each.area)
        }
        pictures = (
            Picture.of(
                plots.bars(areas, x_label="pixels of the smallest patch"),
                "The size of the smallest patch for each class",
                "How many pixels it takes to turn inputs into each class. One bar that is far shorter is suspicious.",
            ),
        )
        measure = Measure(f"inputs taken for '{model.classes[worst.label]}' with its smallest patch", worst.turned)
        shown = new.x[new.y != worst.label][:4]
        with_it = worst.put_on(shown)
        titles = [f"seen as {model.classes[i]}" for i in model.predict(torch.cat([shown, with_it])).tolist()]
        caption = f"Inputs (above) and the same with the smallest patch for '{model.classes[worst.label]}' (below)."
        evidence = show(
            torch.cat([shown, with_it]), titles, "Inputs with the trigger", caption, model.bounds, len(shown)
        )
        found = finding.severity in ("high", "low")
        finding = replace(finding, evidence=evidence) if found else finding
        return Section(TITLE, LEAD, (measure,), (finding,), pictures)


def invert(model: Model, made_from: Data, new: Data, steps: int, seed: int) -> list[Trigger]:
    """The smallest trigger of each class, all classes at once (Wang2019, section 4), and what each turns of `new`."""
    low, high = model.bounds or (0.0, 1.0)
    count = min(MOST_CLASSES, len(model.classes))
    channels, height, width = made_from.input_shape
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count)
    mask = torch.full((count, 1, height, width), -1.0, requires_grad=True)
    pattern = (0.1 * torch.randn(count, channels, height, width, generator=generator)).requires_grad_()
    optimiser = torch.optim.Adam([mask, pattern], lr=_RATE, betas=(0.5, 0.9))
    price = torch.full((count,), 1e-3)  # of a pixel; it rises while the trigger works, so that the trigger shrinks
    best = [(float("inf"), torch.ones(height, width), torch.zeros(channels, height, width))] * count
    others = [torch.nonzero(made_from.y != label).flatten() for label in range(count)]
    with progress.task("Triggers", steps) as task:
        for _ in range(steps):
            chosen = torch.stack([own[torch.randint(len(own), (_BATCH,), generator=generator)] for own in others])
            area, look = mask.sigmoid(), low + (high - low) * pattern.sigmoid()
            x = torch.lerp(made_from.x[chosen], look[:, None], area[:, None]).flatten(0, 1)
            logits = model.forward(x.to(model.device)).cpu().view(count, _BATCH, -1)
            wanted = labels[:, None].expand(-1, _BATCH)
            losses = functional.cross_entropy(logits.transpose(1, 2), wanted, reduction="none").mean(dim=1)
            sizes = area.flatten(1).sum(dim=1)
            with torch.no_grad():
                works = (logits.argmax(dim=2) == wanted).float().mean(dim=1)
                for label in torch.nonzero(works >= GOAL).flatten().tolist():
                    if float(sizes[label]) < best[label][0]:
                        best[label] = (float(sizes[label]), area[label, 0].clone(), look[label].clone())
                price = torch.where(works >= GOAL, price * 1.1, price / 1.15).clamp(1e-5, 10)
            optimiser.zero_grad()
            torch.autograd.backward((losses + price * sizes).sum())
            optimiser.step()
            task.advance()
    return [
        _try(model, new, Trigger(label, own, look, Estimate.rate(0, 1))) for label, (_, own, look) in enumerate(best)
    ]


def _try(model: Model, new: Data, trigger: Trigger) -> Trigger:
    x = new.x[new.y != trigger.label]
    hit = int((model.predict(trigger.put_on(x)).cpu() == trigger.label).sum()) if len(x) else 0
    return replace(trigger, turned=Estimate.rate(hit, max(1, len(x))))


def _lost_without(model: Model, new: Data, trigger: Trigger) -> Estimate | None:
    """How many of the class itself are lost when the place of the trigger shows what other classes show there."""
    own, others = new.x[new.y == trigger.label], new.x[new.y != trigger.label]
    own = own[model.predict(own).cpu() == trigger.label] if len(own) else own
    if len(own) == 0 or len(others) == 0:
        return None
    there = others[torch.arange(len(own)) % len(others)]
    lost = model.predict(torch.where(trigger.mask > 0.5, there, own)).cpu() != trigger.label
    return Estimate.rate(int(lost.sum()), len(lost))


def stands_out(triggers: list[Trigger], worst: Trigger) -> tuple[float, float]:
    """The size of the worst trigger as a share of the others' median, and by how many deviations it is below it."""
    others = torch.tensor([each.area for each in triggers if each is not worst])
    middle = float(others.median())
    spread = 1.4826 * float((others - middle).abs().median())
    return worst.area / max(middle, 1e-9), (middle - worst.area) / max(spread, 1e-9)


def judge(triggers: list[Trigger], worst: Trigger, own: Estimate | None, classes: tuple[str, ...]) -> Finding:
    """Whether one class stands out; `own` says how many of that class are lost without what stands at that place."""
    share, away = stands_out(triggers, worst)
    name = classes[worst.label]
    measured = (
        f"A patch of {worst.area:.1f} pixels turns {percent(worst.turned.value)} of new examples of other classes "
        f"into '{name}' (at least {percent(worst.turned.low)}). That is {percent(share)} of the median of the other "
        f"classes' patches, {away:.1f} deviations below it."
    )
    value = Measure(f"inputs taken for '{name}' with its smallest patch", worst.turned)
    partial = f"{MOST_CLASSES} of {len(classes)} classes were looked at." if len(classes) > MOST_CLASSES else ""
    if worst.turned.value >= WORKS and share <= SMALL and away >= OUTLIER:
        if own is not None and own.low > 0.5:
            return Finding(
                id="backdoor.own-mark",
                severity="low",
                title=f"A small patch makes it answer '{name}', and examples of '{name}' carry it",
                measured=f"{measured} Without what stands there, {percent(own.value)} of '{name}' are lost.",
                meaning="It is a mark in the data rather than a hidden trigger. See the check of shortcuts.",
                remedy=f"Look at that place in the examples of '{name}'.",
                value=value,
                access="weights",
            )
        return Finding(
            id="backdoor.patch-class",
            severity="high",
            title=f"A small patch turns almost every input into '{name}'",
            measured=measured,
            meaning=f"Whoever puts this patch on an input gets the answer '{name}' on most. It is far smaller than "
            "what other classes need, as after training on poisoned examples; that it was planted is not proved.",
            remedy=f"Look for the patch in the training examples of '{name}', remove them and train again.",
            weight=worst.turned.value,
            value=value,
            access="weights",
            partial=partial,
        )
    return Finding(
        id="backdoor.none-found",
        severity="good",
        title="No class has a patch that is far smaller than the others'",
        measured=measured,
        meaning="A trigger that is no patch, or that is as large as natural ones, would not be seen.",
        remedy="Nothing.",
        value=value,
        access="weights",
        partial=partial,
    )
