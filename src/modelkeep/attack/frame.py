"""The frame of every attack: check, search on what still stands, verify in a fresh pass, and say what was noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from modelkeep import progress
from modelkeep.access import Labels, Weights
from modelkeep.attack.attacked import Attacked, summarise
from modelkeep.attack.ball import Ball
from modelkeep.attack.case import Case, Search, Target
from modelkeep.attack.health import Health, beaten
from modelkeep.data import Data
from modelkeep.errors import InputError, bad_parameter
from modelkeep.model import Model
from modelkeep.results import measured


def carry_out(
    model: Model,
    data: Data,
    searches: Sequence[Search],
    *,
    attack: str,
    ball: Ball,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Run the searches one after the other, each on the examples that still stand.

    What a search returns counts only if it lies in the ball and the bounds, differs from the original only where
    `mask` is True, and is answered as wanted in a fresh pass. Where all fail, the original is returned.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        searches: Inner loops; the same one again is a restart, different ones are an ensemble.
        attack: What to call it.
        ball: How far an example may be moved; without a radius the norm only measures.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change; it must broadcast to `(n, *input_shape)`.
        batch_size: Examples that are run at once.
        seed: For all that is random.
    """
    if batch_size < 1:
        raise bad_parameter(attack, "batch_size", "at least 1", batch_size)
    model.require_fit(data)
    original, labels = model.checked(data.x), data.y.to(model.device)
    if model.bounds is not None and not torch.equal(original.clamp(*model.bounds), original):
        raise InputError(
            f"The model takes values in {model.bounds}, but those of '{data.name}' span "
            f"[{float(original.min())}, {float(original.max())}]. Are the data in the owner's units, or normalised?"
        )
    allowed = None if mask is None else _broadcast(mask, original)
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
        clean = torch.cat([model.logits(part) for part in torch.split(original, batch_size)])
        goal, target_name = _goal(model, clean, labels, target)
        field = _Field(model, original, goal, target is not None, ball, allowed, clean.argmax(dim=1))
        # A few are enough to see whether the answers are random, and cost next to nothing.
        random = not torch.equal(model.logits(original[:8]), model.logits(original[:8]))
        for_free = ~field.stands
        solved_by, notes, counts = field.run(searches, labels, attack, batch_size, seed, random)
        return Attacked(
            provenance=provenance(),
            attack=attack,
            norm=ball.norm,
            radius=ball.radius,
            target=target_name,
            bounds=model.bounds,
            classes=model.classes,
            original=original.cpu(),
            adversarial=field.adversarial.cpu(),
            labels=labels.cpu(),
            before=clean.argmax(dim=1).cpu(),
            after=field.after.cpu(),
            distance=ball.distance(field.adversarial, original).cpu(),
            health=notes,
            solved_by=solved_by,
            queries=counts[0],
            gradients=counts[1],
            **summarise(labels, clean.argmax(dim=1), field.after, ~field.stands, for_free),
        )


@dataclass
class _Field:
    """All examples, and how each of them stands by now."""

    model: Model
    original: torch.Tensor
    goal: torch.Tensor
    targeted: bool
    ball: Ball
    allowed: torch.Tensor | None
    after: torch.Tensor

    def __post_init__(self) -> None:
        self.adversarial = self.original.clone()
        self.stands = (self.after != self.goal) if self.targeted else (self.after == self.goal)

    def run(
        self, searches: Sequence[Search], labels: torch.Tensor, attack: str, batch_size: int, seed: int, random: bool
    ) -> tuple[dict[str, int], tuple[str, ...], tuple[int, int]]:
        """Search until nothing stands: who solved how many, the notes, and the numbers of passes."""
        solved_by = {search.name: 0 for search in searches}
        notes: dict[str, None] = {}
        queries = gradients = 0
        generator = torch.Generator().manual_seed(seed)
        with progress.task(attack, int(self.stands.sum()) * len(searches)) as task:
            for number, search in enumerate(searches):
                open_ = torch.nonzero(self.stands).flatten()
                if len(open_) == 0:
                    break
                view, health = search.sees(self.model), Health(random=random)
                for index in torch.split(open_, batch_size):
                    case = Case(
                        view=view,
                        original=self.original[index],
                        goal=self.goal[index],
                        targeted=self.targeted,
                        ball=self.ball,
                        allowed=None if self.allowed is None else self.allowed[index],
                        generator=generator,
                        index=index.cpu(),
                        health=health,
                    )
                    found = search(case)  # type: ignore[arg-type] # it sees what it asked for
                    self._keep_what_holds(case, found, index)
                    right = float((self.after == labels).double().mean())
                    task.advance(len(index), f"{search.name}: robust accuracy {100 * right:.1f} %")
                solved = len(open_) - int(self.stands.sum())
                task.advance(solved * (len(searches) - number - 1))  # the later searches are spared these
                solved_by[search.name] += solved
                queries, gradients = queries + view.queries, gradients + health.gradients
                prefix = f"{search.name}: " if len(solved_by) > 1 else ""
                notes |= dict.fromkeys(f"{prefix}{note}" for note in health.notes())
                blind = gradients > 0 and not issubclass(search.sees, Weights)
                if blind and (note := beaten(search.name, solved, len(open_))):
                    notes[note] = None
        return solved_by, tuple(notes), (queries, gradients)

    def _keep_what_holds(self, case: Case[Labels], found: torch.Tensor, index: torch.Tensor) -> None:
        """A fresh pass over the finished inputs, as their user would run them: only this counts as success."""
        found = torch.where(torch.isfinite(found), found.detach(), case.original)
        found = self.ball.exactly(case.inside(found), case.original)
        labels = self.model.predict(found)
        won = case.answered(labels)
        self.adversarial[index[won]] = found[won]
        self.after[index[won]] = labels[won]
        self.stands[index[won]] = False


def _goal(
    model: Model, clean: torch.Tensor, labels: torch.Tensor, target: str | Target | None
) -> tuple[torch.Tensor, str | None]:
    if target is None:
        return labels, None
    if isinstance(target, str):
        return torch.full_like(labels, model.class_index(target)), target
    return target.of(clean), target.name


def _broadcast(mask: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    if mask.dtype != torch.bool:
        raise InputError(f"The mask must be a boolean tensor, True where the input may change. Got {mask.dtype}.")
    try:
        return mask.to(original.device).expand(original.shape)
    except RuntimeError as error:
        raise InputError(
            f"The mask must broadcast to the inputs' shape {tuple(original.shape)}. Got {tuple(mask.shape)}."
        ) from error
