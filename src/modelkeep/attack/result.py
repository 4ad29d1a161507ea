"""Attacked: what every attack returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import not_
from typing import TYPE_CHECKING, Annotated, TypedDict

import torch
from pydantic import Field

from modelkeep.attack.answers import Answers
from modelkeep.core.results import Estimate, Result, Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN_TEXTS = 5


def _is_one(value: int) -> bool:
    return value == 1


def _is_none(value: object) -> bool:
    return value is None


@dataclass(frozen=True)
class Rewritten:
    """A text that an attack changed: its number in the data, and each word before and after."""

    index: int
    words: tuple[tuple[str, str], ...]

    @property
    def changes(self) -> tuple[tuple[str, str], ...]:
        """The words that were exchanged."""
        return tuple((before, after) for before, after in self.words if before != after)

    def __str__(self) -> str:
        return ", ".join(f"{before} → {after}" for before, after in self.changes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked(Result, kind="attacked"):
    """The inputs that an attack found, and how the model stands after it.

    Where the attack failed, `adversarial` is the original and `success` is False. `before` and `after` are the
    predictions on both, `distance` is the norm of the change, and `health` says why the attack may have missed
    something. `success_rate` counts only the examples on which there was something to win. Without a `radius` the
    attack looked for the smallest change, and `accuracy_at` says how the model stands at any. `solved_by` says which
    part of the attack won how many; `queries` and `gradients` are the examples that it ran forward and backward.
    `texts` are the texts that were changed, as words.

    A random model was asked `draws` times about each input: accuracies and success are means over its answers,
    `right_before` and `right_after` say how often each input was answered rightly, `before` and `after` are the most
    frequent answers, and `adversarial` is the input with the most wrong ones. `after` is -1 where the model gave NaN.
    """

    attack: str
    norm: str
    radius: float | None
    target: str | None
    clean_accuracy: Estimate
    robust_accuracy: Estimate
    success_rate: Estimate | None
    health: tuple[str, ...]
    solved_by: dict[str, int]
    queries: int
    gradients: int
    bounds: tuple[float, float] | None
    classes: tuple[str, ...] = field(repr=False)
    original: Tensor = field(repr=False)
    adversarial: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)
    before: Tensor = field(repr=False)
    after: Tensor = field(repr=False)
    success: Tensor = field(repr=False)
    distance: Tensor = field(repr=False)
    texts: Annotated[tuple[Rewritten, ...], Field(exclude_if=not_)] = field(default=(), repr=False)
    draws: Annotated[int, Field(exclude_if=_is_one)] = 1
    right_before: Annotated[Tensor | None, Field(exclude_if=_is_none)] = field(default=None, repr=False)
    right_after: Annotated[Tensor | None, Field(exclude_if=_is_none)] = field(default=None, repr=False)

    @property
    def size(self) -> str:
        """How far inputs could be moved, in words."""
        return "the smallest change" if self.radius is None else f"radius {self.radius:.3g}"

    def accuracy_at(self, radius: float) -> Estimate:
        """The share of examples that are still answered rightly if no input may move by more than `radius`."""
        if self.right_before is not None and self.right_after is not None:
            right = torch.where(self.distance <= radius, self.right_after, self.right_before)
            return Estimate.rate(float(right.sum()), len(self.labels))
        fallen = (self.after != self.labels) & (self.distance <= radius)
        return Estimate.rate(int((~fallen & (self.before == self.labels)).sum()), len(self.labels))

    def rows(self) -> list[tuple[str, str]]:
        goal = "" if self.target is None else f" towards '{self.target}'"
        found = self.distance[self.success & (self.distance > 0)]
        parts = ", ".join(f"{name} {count}" for name, count in self.solved_by.items())
        return [
            ("attack", f"{self.attack} {self.norm}, {self.size}{goal}"),
            ("accuracy, clean", str(self.clean_accuracy)),
            ("accuracy, attacked", str(self.robust_accuracy)),
            ("success rate", "nothing to attack" if self.success_rate is None else str(self.success_rate)),
            *([("answers per input", f"{self.draws}, as the model is random")] if self.draws > 1 else []),
            *([("solved by", parts)] if len(self.solved_by) > 1 else []),
            ("median distance", f"{float(found.median()):.4g}" if len(found) else "–"),
            *((f"words of text {text.index}", str(text)) for text in self.texts[:_SHOWN_TEXTS]),
            ("passes", f"{self.queries:,} forward, {self.gradients:,} backward"),
            ("health", "; ".join(self.health) or "nothing suspicious"),
        ]

    def draw(self) -> Figure:
        """Original, change and adversarial input of up to eight examples; for tables, the accuracies."""
        from modelkeep.core import plots

        chosen = torch.nonzero(self.success & (self.distance > 0)).flatten()[:8]
        if self.original.ndim != 4 or len(chosen) == 0:
            return plots.bars({"clean": self.clean_accuracy, "attacked": self.robust_accuracy}, x_label="accuracy")
        low, high = (
            self.bounds
            if self.bounds is not None
            else (
                float(self.original.min()),
                float(self.original.max()),
            )
        )
        clean, moved = self.original[chosen], self.adversarial[chosen]
        change = moved - clean
        largest = change.abs().max()
        middle = (low + high) / 2 + (high - low) / 2 * change / largest  # grey where nothing was changed
        titles = [
            *(f"{self.classes[i]}" for i in self.before[chosen].tolist()),
            *["change"] * len(chosen),
            *(f"seen as {self.classes[i]}" if i >= 0 else "no answer" for i in self.after[chosen].tolist()),
        ]
        return plots.image_grid(torch.cat([clean, middle, moved]), titles, columns=len(chosen), bounds=(low, high))


class Summary(TypedDict):
    """The fields that follow from the predictions."""

    clean_accuracy: Estimate
    robust_accuracy: Estimate
    success_rate: Estimate | None
    success: torch.Tensor
    draws: int
    right_before: torch.Tensor | None
    right_after: torch.Tensor | None


def summarise(labels: torch.Tensor, goal: torch.Tensor, targeted: bool, before: Answers, after: Answers) -> Summary:
    """Accuracies and success, as means over the answers; of one answer each is right or wrong.

    Examples that the model gave away without any change are no success of the attack.
    """
    given, found = (answers.share(goal) if targeted else 1 - answers.share(goal) for answers in (before, after))
    contested = given <= 0.5
    many = after.draws > 1
    return Summary(
        clean_accuracy=Estimate.rate(float(before.share(labels).sum()), len(labels)),
        robust_accuracy=Estimate.rate(float(after.share(labels).sum()), len(labels)),
        success_rate=Estimate.rate(float(found[contested].sum()), int(contested.sum())) if contested.any() else None,
        success=(found > 0.5).cpu(),
        draws=after.draws,
        right_before=before.share(labels).cpu() if many else None,
        right_after=after.share(labels).cpu() if many else None,
    )
