"""PGD: projected gradient ascent on the loss inside a ball (Madry et al.; thesis 004, section 2.1)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import torch

from modelkeep import progress
from modelkeep.attack.attacked import Attacked, summarise
from modelkeep.attack.ball import Ball, Norm
from modelkeep.data import Data
from modelkeep.errors import InputError, bad_parameter
from modelkeep.model import Model
from modelkeep.results import measured


def pgd(
    model: Model,
    data: Data,
    *,
    norm: Norm = "linf",
    radius: float,
    steps: int = 40,
    step_size: float | None = None,
    restarts: int = 1,
    target: str | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Look for inputs within `radius` of each example that the model gets wrong.

    Starts at a random point of the ball and follows the direction of the cross-entropy's gradient. An example is
    dropped as soon as it is solved, so the cost is at most the floor's: one forward and one backward pass per step.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        norm: "linf" or "l2".
        radius: The largest allowed distance, in the owner's units.
        steps: Gradient steps per start.
        step_size: Length of a step; 2.5 · radius / steps where it is not given.
        restarts: How many random starts are tried on what is not solved yet.
        target: The class that the answer should become; without it, any wrong answer will do.
        batch_size: Examples that are run at once.
        seed: For the random starts.
    """
    if steps < 1:
        raise bad_parameter("pgd", "steps", "at least 1", steps)
    if restarts < 1:
        raise bad_parameter("pgd", "restarts", "at least 1", restarts)
    if step_size is not None and not step_size > 0:
        raise bad_parameter("pgd", "step_size", "a number above 0", step_size)
    ball = Ball(norm, radius, model.bounds)
    model.require_fit(data)
    original, labels = model.checked(data.x), data.y.to(model.device)
    if model.bounds is not None and not torch.equal(original.clamp(*model.bounds), original):
        raise InputError(
            f"The model takes values in {model.bounds}, but those of '{data.name}' span "
            f"[{float(original.min())}, {float(original.max())}]. Are the data in the owner's units, or normalised?"
        )
    goal = labels if target is None else torch.full_like(labels, model.class_index(target))
    ascent = _Ascent(model, ball, step_size or 2.5 * radius / steps, steps, targeted=target is not None)
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
        before = _predict(model, original, batch_size)
        first = original[:8]  # a few are enough to see it, and cost next to nothing
        ascent.random = not torch.equal(model.logits(first), model.logits(first))
        adversarial = original.clone()
        open_ = torch.nonzero(~ascent.reached(before, goal)).flatten()
        generator = torch.Generator().manual_seed(seed)
        with progress.task(f"PGD {norm} {radius:g}", len(open_) * restarts) as task:
            for _ in range(restarts):
                # Drawn for all examples at once, so that the batch size does not change who gets which start.
                starts = ball.random_point(original[open_], generator)
                for part in torch.split(torch.arange(len(open_)), batch_size):
                    index = open_[part]
                    adversarial[index] = ascent(original[index], starts[part], goal[index])
                    task.advance(len(part))
                adversarial = ball.exactly(adversarial, original)
                # A fresh pass over the finished inputs, as their user would run them: only this counts as success.
                after = _predict(model, adversarial, batch_size)
                failed = ~ascent.reached(after, goal)
                adversarial[failed] = original[failed]
                open_ = torch.nonzero(failed).flatten()
                if len(open_) == 0:
                    break
        after = torch.where(failed, before, after)
        return Attacked(
            provenance=provenance(),
            attack="PGD",
            norm=norm,
            radius=radius,
            target=target,
            bounds=model.bounds,
            classes=model.classes,
            original=original.cpu(),
            adversarial=adversarial.cpu(),
            labels=labels.cpu(),
            before=before.cpu(),
            after=after.cpu(),
            distance=ball.distance(adversarial, original).cpu(),
            health=ascent.health(),
            **summarise(labels, before, after, ascent.reached(after, goal), ascent.reached(before, goal)),
        )


@dataclass
class _Ascent:
    """The inner loop, and what it notices on its way."""

    model: Model
    ball: Ball
    step_size: float
    steps: int
    targeted: bool
    solved_at: Counter[int] = field(default_factory=Counter)
    seen: int = 0
    flat: int = 0
    broken: int = 0
    random: bool = False

    def reached(self, predicted: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """Whether the attack has what it wants: the target, or anything but the label."""
        return predicted == goal if self.targeted else predicted != goal

    def _gain(self, logits: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """How far the wanted answer is ahead, smoothly: u = log Σ exp of the other logits, minus the label's.

        The cross-entropy of the label is log(1 + exp u). It rises in the very same direction, but its gradient
        underflows to zero where the model is sure; this one's never does.
        """
        others = logits.scatter(1, goal[:, None], -torch.inf).logsumexp(dim=1)
        ahead = others - logits.gather(1, goal[:, None])[:, 0]
        return -ahead if self.targeted else ahead

    def _clearly_reached(self, logits: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """Whether it has that by more than rounding: another batch rounds otherwise, and would take it back."""
        wanted = logits.gather(1, goal[:, None])[:, 0]
        lead = wanted - logits.scatter(1, goal[:, None], -torch.inf).amax(dim=1)
        return (lead if self.targeted else -lead) > 1e-4 * logits.abs().amax(dim=1)

    @torch.enable_grad()
    def __call__(self, original: torch.Tensor, start: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """Where the ascent from `start` ends for each example, `(n, ...)`."""
        end, active = start.clone(), torch.arange(len(start), device=start.device)
        x = start
        for step in range(self.steps):
            x = x.detach().requires_grad_()
            logits = self.model.forward(x)
            (gradient,) = torch.autograd.grad(self._gain(logits, goal[active]).sum(), x)
            if step == 0:
                self._notice(gradient)
            going = ~self._clearly_reached(logits.detach(), goal[active])
            x = x.detach()
            if not going.all():
                # What is solved is kept as it is and costs nothing from here on.
                end[active[~going]] = x[~going]
                self.solved_at[step] += int((~going).sum())
                active, x, gradient = active[going], x[going], gradient[going]
            if len(active) == 0:
                return end
            moved = x + self.step_size * self.ball.steepest(torch.nan_to_num(gradient))
            x = self.ball.project(moved, original[active])
        end[active] = x
        return end

    def _notice(self, gradient: torch.Tensor) -> None:
        flattened = gradient.flatten(1)
        self.seen += len(flattened)
        self.flat += int((flattened == 0).all(dim=1).sum())
        self.broken += int((~torch.isfinite(flattened)).any(dim=1).sum())

    def health(self) -> tuple[str, ...]:
        """Why the attack may have missed what a better one would find; empty where nothing was noticed."""
        notes = []
        if self.random:
            notes.append("the model is random: it answers the same inputs differently, so its gradients are noisy")
        if self.flat > 0.05 * self.seen:
            notes.append(
                f"masked gradients suspected: the gradient is exactly zero on {self.flat} of {self.seen} examples"
            )
        if self.broken:
            notes.append(
                f"masked gradients suspected: the gradient is not finite on {self.broken} of {self.seen} examples"
            )
        late = sum(count for step, count in self.solved_at.items() if step >= 0.8 * self.steps)
        if self.steps >= 5 and late > 0.1 * max(sum(self.solved_at.values()), 10):
            notes.append(f"too few steps: {late} examples were solved in the last fifth of the {self.steps} steps")
        return tuple(notes)


def _predict(model: Model, x: torch.Tensor, batch_size: int) -> torch.Tensor:
    return torch.cat([model.predict(part) for part in torch.split(x, batch_size)])
