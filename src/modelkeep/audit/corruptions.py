"""Does it stand what happens to pictures by itself: noise, blur, compression, light?"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.nn import functional

from modelkeep.audit.cost import Cost
from modelkeep.audit.evidence import can_be_shown, show
from modelkeep.audit.findings import Finding, Outcomes, Section, Severity
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.examples import rows_at_once
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.harden.jpeg import Jpeg
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

TITLE = "Does it stand bad pictures?"
LEAD = (
    "Noise, blur, JPEG compression and brightness at three strengths, as in CIFAR-10-C (severities 1, 3 and 5). The "
    "same examples are answered clean and changed, so that the two accuracies can be compared."
)
SEVERITIES = (1, 3, 5)
# CIFAR-10-C's numbers for severities 1, 3 and 5: deviation of the noise, deviation of the blur in pixels of 32, JPEG's
# quality, and what is added to the brightness; all for values from 0 to 1.
_NOISE, _BLUR, _QUALITY, _LIGHT = (0.04, 0.08, 0.10), (0.4, 0.7, 1.0), (80, 58, 50), (0.05, 0.15, 0.3)
MATTERS, GRAVE = 0.1, 0.3
"""Points of accuracy, lost on the same examples at middle strength, from which on it matters, and is grave."""


@declare("check", "corruptions", access="labels", paper="Hendrycks2019")
class CheckCorruptions:
    """Accuracy on noisy, blurred, compressed and brighter pictures, beside that on the same pictures as they are."""

    examples: int = setting("Examples to look at, drawn by the seed.", default=256, at_least=1)

    def cost(self, model: Model, data: Data) -> Cost:
        """Each example once clean, and once for each change and strength."""
        return Cost(min(self.examples, len(data)) * (1 + len(_KINDS) * len(SEVERITIES)))

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs pictures with a range."""
        if not can_be_shown(data.input_shape) or model.bounds is None:
            return "It changes pictures, and these inputs are none, or have no range (--bounds)."
        return ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Change a sample of the data."""
        data = data.sample(min(self.examples, len(data)), seed).load()
        low, high = model.bounds or (0.0, 1.0)
        unit = (data.x - low) / (high - low)
        clean = _right(model, data.x, data.y)
        right: dict[str, list[torch.Tensor]] = {}
        for name, change in _KINDS.items():
            changed = [change(unit, i, seed) * (high - low) + low for i in range(len(SEVERITIES))]
            right[name] = [_right(model, x, data.y) for x in changed]
        accuracy = Estimate.rate(int(clean.sum()), len(data))
        worst = min(right, key=lambda name: int(right[name][1].sum()))
        curve = plots.curve(
            [0, *SEVERITIES],
            {name: [accuracy, *(Estimate.rate(int(r.sum()), len(data)) for r in each)] for name, each in right.items()},
            x_label="strength of the change (0: as it is)",
            y_label="accuracy",
        )
        pictures = [
            Picture.of(curve, "Accuracy against the strength", "Accuracy on the same examples; the band is 95 %.")
        ]
        measures = [
            Measure(f"accuracy with {name}, strength 3 of 5", Estimate.rate(int(each[1].sum()), len(data)))
            for name, each in sorted(right.items(), key=lambda item: int(item[1][1].sum()))
        ]
        finding = _judge(data, worst, clean, right[worst][1], len(_KINDS) * len(SEVERITIES) + 1)
        fallen = torch.nonzero(clean & ~right[worst][1]).flatten()[:4]
        bad = _KINDS[worst](unit, 1, seed)[fallen] * (high - low) + low
        said = model.predict(bad).cpu() if len(bad) else data.y[:0]
        titles = [*(data.classes[i] for i in data.y[fallen]), *(f"seen as {data.classes[i]}" for i in said)]
        caption = f"Examples as they are (above), and with {worst} (below), which the model then gets wrong."
        pictures += show(
            torch.cat([data.x[fallen], bad]), titles, f"{worst}: before and after", caption, model.bounds, len(fallen)
        )
        return Section(TITLE, LEAD, tuple(measures), (finding,), tuple(pictures))


def _right(model: Model, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([model.predict(part).cpu() for part in torch.split(x, rows_at_once(tuple(x.shape[1:])))]) == y


def _judge(data: Data, worst: str, clean: torch.Tensor, right: torch.Tensor, asked: int) -> Finding:
    """What is lost by the worst change at middle strength, example by example."""
    lost = Estimate.bootstrap((clean.double() - right.double()).numpy(), 0)
    accuracy = Estimate.rate(int(clean.sum()), len(data))
    kept = Estimate.rate(int(right.sum()), len(data))
    measured = (
        f"With {worst} at strength 3 of 5, accuracy on the same {len(data)} examples goes from "
        f"{percent(accuracy.value)} to {percent(kept.value)}: {100 * lost.value:.1f} points lost "
        f"({100 * lost.low:.1f} to {100 * lost.high:.1f}). That is the worst of {len(_KINDS)} changes."
    )
    severity: Severity
    if lost.low >= MATTERS:
        severity, name = ("medium" if lost.low >= GRAVE else "low"), "fragile"
        title, meaning = f"{worst.capitalize()} costs it many right answers", "Inputs need no attacker to be like this."
        remedy = f"Train with {worst} added to some of the pictures (augmentation)."
    elif lost.high > GRAVE:
        severity, name, title = "unclear", "unclear", "Too few examples to say whether it stands bad pictures"
        meaning, remedy = "The interval holds both a small and a grave loss.", "Look at more examples (--examples)."
    else:
        severity, name, title = "good", "stands", "Noise, blur, compression and light cost it little"
        meaning, remedy = "At middle strength. Other changes, such as fog or rotation, were not tried.", "Nothing."
    return Finding(
        id=f"corruptions.{name}",
        severity=severity,
        title=title,
        measured=measured,
        meaning=meaning,
        remedy=remedy,
        weight=lost.value,
        value=Measure(f"accuracy with {worst}, strength 3 of 5", kept),
        access="labels",
        queries=asked * len(data),
        outcomes=Outcomes.of(data, right),
    )


def add_noise(x: torch.Tensor, strength: int, seed: int) -> torch.Tensor:
    """Gaussian noise on values from 0 to 1."""
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
    return (x + _NOISE[strength] * noise).clamp(0, 1)


def blur(x: torch.Tensor, strength: int, seed: int) -> torch.Tensor:
    """A Gaussian blur whose width grows with the picture: CIFAR's pictures have 32 pixels."""
    width = _BLUR[strength] * max(1.0, x.shape[-1] / 32)
    reach = max(1, math.ceil(3 * width))
    bell = torch.exp(-torch.arange(-reach, reach + 1).square() / (2 * width**2))
    bell = bell / bell.sum()
    channels = x.shape[1]
    for shape, pad in (((1, 1, 1, -1), (reach, reach, 0, 0)), ((1, 1, -1, 1), (0, 0, reach, reach))):
        kernel = bell.view(shape).expand(channels, 1, -1, -1)
        x = functional.conv2d(functional.pad(x, pad, mode="replicate"), kernel, groups=channels)
    return x.clamp(0, 1)


def compress(x: torch.Tensor, strength: int, seed: int) -> torch.Tensor:
    """What JPEG leaves of it."""
    decoded: torch.Tensor = Jpeg(_QUALITY[strength])(x)
    return decoded


def brighten(x: torch.Tensor, strength: int, seed: int) -> torch.Tensor:
    """More light: the value of HSV is raised, which keeps the colours; a grey picture gets brighter everywhere."""
    value = x.amax(dim=1, keepdim=True)
    raised = (value + _LIGHT[strength]).clamp(0, 1)
    return torch.where(value > 0, x * (raised / value.clamp_min(1e-6)), raised).clamp(0, 1)


_KINDS: dict[str, Callable[[torch.Tensor, int, int], torch.Tensor]] = {
    "noise": add_noise,
    "blur": blur,
    "JPEG compression": compress,
    "brightness": brighten,
}
