"""Health: what an attack notices on its way, and why it may have missed what a better one would find."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

MASKED = "masked gradients suspected"
NO_GRAPH = "there is no graph from the network's input to its logits (no_grad, NumPy or whole numbers inside)"


@dataclass
class Health:
    """What one search noticed. The search tells what it sees; `notes` draws the conclusions."""

    random: bool = False
    graphless: bool = False
    gradients: int = 0
    seen: int = 0
    flat: int = 0
    broken: int = 0
    steps: int = 0
    solved_at: dict[int, int] = field(default_factory=dict)
    standing: int = 0
    still_rising: int = 0
    never_rose: int = 0

    def see_gradient(self, gradient: torch.Tensor) -> None:
        """Look at the gradients of a step, mostly the first: are they zero or not finite?"""
        flattened = gradient.flatten(1)
        self.seen += len(flattened)
        self.flat += int((flattened == 0).all(dim=1).sum())
        self.broken += int((~torch.isfinite(flattened)).any(dim=1).sum())

    def see_solved(self, step: int, count: int, steps: int) -> None:
        """Note that `count` examples were solved at `step` (from 0) of `steps`."""
        self.solved_at[step] = self.solved_at.get(step, 0) + count
        self.steps = steps

    def see_ascent(self, first: torch.Tensor, late: torch.Tensor, last: torch.Tensor) -> None:
        """Look at what is maximised, on those that still stand: at the start, after three quarters, at the end."""
        total, tail = last - first, last - late
        self.standing += len(last)
        self.never_rose += int((total <= 0).sum())
        self.still_rising += int(((total > 0) & (tail > 0.1 * total)).sum())

    def notes(self) -> tuple[str, ...]:
        """Why the attack may have missed something, in sentences; empty where nothing was noticed."""
        found = []
        if self.random:
            found.append(
                "the model is random: it answers the same inputs differently, so its gradients are averaged over "
                "several draws, and its accuracies are means over its answers"
            )
        if self.graphless:
            found.append(f"skipped, because {NO_GRAPH}")
        if self.flat > 0.05 * self.seen:
            found.append(f"{MASKED}: the gradient is exactly zero on {self.flat} of {self.seen} examples")
        if self.broken:
            found.append(f"{MASKED}: the gradient is not finite on {self.broken} of {self.seen} examples")
        if self.standing >= 10 and self.never_rose > 0.5 * self.standing:
            found.append(f"{MASKED}: the loss did not rise on {self.never_rose} of {self.standing} that stand")
        late = sum(count for step, count in self.solved_at.items() if step >= 0.8 * self.steps)
        if self.steps >= 5 and late > 0.1 * max(sum(self.solved_at.values()), 10):
            found.append(f"too few steps: {late} examples were solved in the last fifth of the {self.steps} steps")
        if self.standing >= 10 and self.still_rising > 0.5 * self.standing:
            found.append(
                f"not converged: on {self.still_rising} of {self.standing} that stand, the last quarter of the steps "
                "brought more than a tenth of the rise"
            )
        return tuple(found)


def note_blind_success(blind: str, solved: int, contested: int) -> str | None:
    """The note where a `blind` attack, which sees no gradient, `solved` what the gradient attacks could not.

    >>> note_blind_success("Square", 9, 100)
    'masked gradients suspected: Square, which sees no gradient, solved 9 of 100 that the gradient attacks could not'
    """
    if solved < 3 or solved <= 0.02 * contested:
        return None
    return (
        f"{MASKED}: {blind}, which sees no gradient, solved {solved} of {contested} that the gradient attacks could not"
    )
