"""The climb of Auto-PGD: long steps first, shorter ones where they no longer help, on from the best point so far."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from modelkeep.attack.case import Case
from modelkeep.core.access import Weights
from modelkeep.core.norms import per_example

Value = Callable[[Case[Weights], torch.Tensor, torch.Tensor], torch.Tensor]
"""What to maximise, `(n,)`: from the case of those still climbing, their positions in the batch, and their logits."""


def climb(case: Case[Weights], start: torch.Tensor, value: Value, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where `steps` uphill from `start` end for each example, and whether it was solved on the way."""
    end, solved = start.clone(), torch.zeros(len(start), dtype=torch.bool, device=start.device)
    climbers = _SparseClimbers(start, case) if case.ball.norm == "l1" else _Climbers(start, case)
    going, active = case, torch.arange(len(start), device=start.device)
    looks, looked = climbers.looks(steps), 0
    marks = {0: 0, 3 * steps // 4: 1, steps - 1: 2} if steps >= 4 else {}
    heights = start.new_zeros(3, len(start))
    for step in range(steps):
        gradient, logits = going.gradient(climbers.x, partial(value, going, active))
        if step == 0:
            case.health.see_gradient(gradient)
        reached = going.reached(logits)
        if reached.any():
            end[active[reached]] = climbers.x[reached]
            solved[active[reached]] = True
            case.health.see_solved(step, int(reached.sum()), steps)
            rest = ~reached
            climbers.keep(rest)
            going, active, gradient, logits = going.part(rest), active[rest], gradient[rest], logits[rest]
            if len(active) == 0:
                break
        if step == 0 and not gradient.any():
            break  # nothing leads anywhere from here
        climbers.arrive(value(going, active, logits), torch.nan_to_num(gradient))
        if step in marks:
            heights[marks[step], active] = climbers.best_height
        if step in looks:
            climbers.adapt(going, step - looked)
            looked = step
        climbers.move(going)
    end[active] = climbers.x
    if marks and len(active):
        case.health.see_ascent(*heights[:, active])
    return end, solved


class _Climbers:
    """Where each example is, was, and was best, and how long its steps are. All tensors have one row per example."""

    def __init__(self, start: torch.Tensor, case: Case[Weights]) -> None:
        self.x = self.before = self.best = start
        self.gradient = self.best_gradient = torch.zeros_like(start)
        lowest = start.new_full((len(start),), -torch.inf)
        self.height = self.best_height = self.best_height_then = lowest
        self.size = torch.full_like(lowest, 2 * case.ball.reach)
        self.rises = torch.zeros_like(lowest)
        self.shortened = torch.zeros_like(lowest, dtype=torch.bool)

    @staticmethod
    def looks(steps: int) -> set[int]:
        """The steps at which their sizes are looked at: after 22 %, then more and more often, down to every 6 %."""
        after, found, look = 0.22, set(), max(1, int(0.22 * steps))
        while look < steps:
            found.add(look)
            after = max(after - 0.03, 0.06)
            look += max(1, int(after * steps))
        return found

    def keep(self, rest: torch.Tensor) -> None:
        """Forget the examples that are not in `rest`."""
        for name, values in vars(self).items():
            setattr(self, name, values[rest])

    def arrive(self, height: torch.Tensor, gradient: torch.Tensor) -> None:
        """Note what was found at `x`."""
        height = torch.nan_to_num(height, nan=-torch.inf)
        self.rises = self.rises + (height > self.height)
        self.height, self.gradient = height, gradient
        better = height > self.best_height
        self.best = torch.where(per_example(better, self.x), self.x, self.best)
        self.best_gradient = torch.where(per_example(better, gradient), gradient, self.best_gradient)
        self.best_height = torch.where(better, height, self.best_height)

    def adapt(self, case: Case[Weights], steps: int) -> None:
        """Halve the step of those who rose in too few of the last `steps`, or not at all since the last look."""
        few = self.rises <= 0.75 * steps
        stuck = ~self.shortened & (self.best_height <= self.best_height_then)
        self.shortened = few | stuck
        self.size = torch.where(self.shortened, self.size / 2, self.size)
        self._return_to_best(self.shortened)
        self.best_height_then = self.best_height
        self.rises = torch.zeros_like(self.rises)

    def move(self, case: Case[Weights]) -> None:
        """One step, a quarter of which goes on as before."""
        step = per_example(self.size, self.x) * case.ball.steepest(self.gradient)
        there = case.ball.project(self.x + step, case.original)
        there = self.x + 0.75 * (there - self.x) + 0.25 * (self.x - self.before)
        self.before, self.x = self.x, case.ball.project(there, case.original)

    def _return_to_best(self, who: torch.Tensor) -> None:
        self.x = torch.where(per_example(who, self.x), self.best, self.x)
        self.before = torch.where(per_example(who, self.x), self.best, self.before)
        self.gradient = torch.where(per_example(who, self.x), self.best_gradient, self.gradient)


class _SparseClimbers(_Climbers):
    """In an l1 ball: steps that change few values, and ever fewer as the change gets sparser (Croce2021)."""

    def __init__(self, start: torch.Tensor, case: Case[Weights]) -> None:
        super().__init__(start, case)
        self.size = self.size / 2
        self.changed = torch.full_like(self.size, start[0].numel())
        self.density = torch.full_like(self.size, 0.2)

    @staticmethod
    def looks(steps: int) -> set[int]:
        """Every 4 % of the steps."""
        return set(range(max(1, int(0.04 * steps)), steps, max(1, int(0.04 * steps))))

    def adapt(self, case: Case[Weights], steps: int) -> None:
        """Long steps from the best point again where that got sparser, shorter ones from here where it did not."""
        changed = (self.best != case.original).flatten(1).sum(dim=1).to(self.size.dtype)
        sparser = changed < 0.95 * self.changed
        longest = case.ball.reach
        self.size = torch.where(sparser, longest, (self.size / 1.5).clamp_min(longest / 10))
        self.density = changed / self.x[0].numel() / 1.5
        self.changed = changed
        self._return_to_best(sparser)

    def move(self, case: Case[Weights]) -> None:
        """One step on the largest entries of the gradient, as many as the density says."""
        flat = case.ball.unblocked(self.x, self.gradient).flatten(1)
        count = (self.density * flat.shape[1]).long().clamp(1, flat.shape[1])
        smallest = flat.abs().topk(int(count.max()), dim=1).values.gather(1, count[:, None] - 1)
        signs = torch.where(flat.abs() >= smallest, flat.sign(), 0)
        step = self.size[:, None] * signs / signs.abs().sum(dim=1, keepdim=True).clamp_min(1)
        self.x = case.ball.project(self.x + step.view_as(self.x), case.original)
