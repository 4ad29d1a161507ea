"""Campaign: searches one after the other, each on the examples that still stand; each success verified afresh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from modelkeep.attack.adaptive import Expected
from modelkeep.attack.answers import NO_ANSWER, Answers, ask
from modelkeep.attack.case import Case, Search
from modelkeep.attack.checkpoint import Checkpoint
from modelkeep.attack.health import NO_GRAPH, Health, note_blind_success
from modelkeep.core import progress
from modelkeep.core.access import Labels, Weights
from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball


@dataclass
class Stage:
    """One search on the examples that stood when it began."""

    health: Health
    began_with: int = 0
    solved: int = 0
    queries: int = 0


@dataclass
class Campaign:
    """All examples of an attack, and how each of them stands by now.

    The searches ask the model `seen`: `model` itself or, where that is `random`, its mean over several draws. What they
    find is judged by `draws` fresh answers of `model`, and the input with the most wanted answers is kept.
    """

    model: Model
    seen: Model
    original: torch.Tensor
    labels: torch.Tensor
    goal: torch.Tensor
    targeted: bool
    ball: Ball
    allowed: torch.Tensor | None
    before: Answers
    random: bool
    draws: int
    stages: list[Stage] = field(default_factory=list)

    @property
    def passes(self) -> int:
        """Passes of the model for one of `seen`."""
        return self.seen.module.samples if isinstance(self.seen.module, Expected) else 1

    def __post_init__(self) -> None:
        self.adversarial = self.original.clone()
        self.after = self.before.labels
        self.won = self._wanted(self.before, self.goal)
        self.stands = self.won < 1
        # Where nothing may be changed, there is nothing to search.
        self.closed = torch.zeros_like(self.stands)
        if self.allowed is not None:
            self.closed = ~self.allowed.flatten(1).any(dim=1)
        self.waiting = torch.empty(0, dtype=torch.int64)
        self.generator = torch.Generator()

    def run(self, searches: Sequence[Search], name: str, batch_size: int, seed: int, checkpoint: Checkpoint) -> None:
        """Search until nothing stands or all searches have been tried."""
        self.generator.manual_seed(seed)
        self._start(checkpoint)
        boundary = self._state()
        try:
            with progress.task(name, int(self.stands.sum()) * len(searches)) as task:
                # The last stage that was begun has examples waiting; those before it are done.
                for number, search in list(enumerate(searches))[max(len(self.stages) - 1, 0) :]:
                    if number == len(self.stages):
                        self.waiting = torch.nonzero(self.stands & ~self.closed).flatten()
                        self.stages.append(Stage(Health(random=self.random), began_with=len(self.waiting)))
                    stage = self.stages[number]
                    while len(self.waiting):
                        index, rest = self.waiting[:batch_size], self.waiting[batch_size:]
                        solved = self._try(search, stage, index)
                        self.waiting = rest
                        boundary = self._state()
                        if checkpoint.due:
                            checkpoint.write(*boundary)
                        # A count: a later radius or search is given only a part of the examples.
                        # It comes first, where a narrow terminal does not cut it.
                        standing = f"{int(self.stands.sum())} of {len(self.stands)} stand"
                        spared = solved * (len(searches) - number - 1)  # the later searches need not try these
                        task.advance(len(index) + spared, f"{standing}, {search.title}")
        finally:
            checkpoint.write(*boundary)  # of the last complete batch, also after Ctrl-C

    def _try(self, search: Search, stage: Stage, index: torch.Tensor) -> int:
        """Run the search on some examples, keep what holds, and say how many that are."""
        view = search.sees(self.seen, tolerant=True)
        case = Case(
            view=view,
            original=self.original[index],
            goal=self.goal[index],
            targeted=self.targeted,
            ball=self.ball,
            allowed=None if self.allowed is None else self.allowed[index],
            generator=self.generator,
            index=index.cpu(),
            health=stage.health,
            random=self.random,
        )
        gradients = stage.health.gradients
        try:
            found = search.search(case)  # type: ignore[arg-type] # it sees what it asked for
        except RuntimeError:
            if not issubclass(search.sees, Weights) or _has_graph(self.seen, case.original[:1]):
                raise
            stage.health.graphless = True
            return 0
        solved = self._keep_what_holds(case, found, index)
        stage.solved += solved
        stage.queries += view.queries * self.passes
        stage.health.gradients += (stage.health.gradients - gradients) * (self.passes - 1)
        return solved

    def _keep_what_holds(self, case: Case[Labels], found: torch.Tensor, index: torch.Tensor) -> int:
        """Fresh answers to the finished inputs, as their user would get them: only these count as success."""
        found = torch.where(torch.isfinite(found), found.detach(), case.original)
        found = self.ball.exactly(case.inside(found), case.original)
        answers = ask(self.model, found, self.draws, len(found))
        won, before = self._wanted(answers, case.goal), self.won[index]
        better = won > before
        chosen = index[better]
        self.adversarial[chosen] = found[better]
        self.after[chosen] = answers.labels[better]
        self.won[chosen] = won[better]
        self.stands[index] = self.won[index] < 1
        return int((better & (won > 0.5) & (before <= 0.5)).sum())

    def _wanted(self, answers: Answers, goal: torch.Tensor) -> torch.Tensor:
        """How often each answer is as wanted `(n,)`; without a radius 0 or 1, as the nearest input counts there."""
        share = answers.share(goal)
        share = share if self.targeted else 1 - share
        return share if self.ball.radius is not None else (share > 0.5).double()

    def notes(self, searches: Sequence[Search]) -> tuple[str, ...]:
        """What all stages noticed, each thing once."""
        found: dict[str, None] = {}
        if closed := int((self.closed & self.stands).sum()):
            found[
                f"nothing may be changed in {closed} of {len(self.closed)} examples: they stand by the mask alone"
            ] = None
        if silent := int((self.after == NO_ANSWER).sum()):
            found[
                f"the model gives NaN or infinity on {silent} of the inputs that were found, which is a wrong answer"
            ] = None
        several = len({search.title for search in searches}) > 1
        gradients = 0
        for search, stage in zip(searches, self.stages, strict=False):
            prefix = f"{search.title}: " if several else ""
            found |= dict.fromkeys(f"{prefix}{note}" for note in stage.health.notes())
            blind = gradients > 0 and not issubclass(search.sees, Weights)
            if blind and (note := note_blind_success(search.title, stage.solved, stage.began_with)):
                found[note] = None
            gradients += stage.health.gradients
        return tuple(found)

    def solved_by(self, searches: Sequence[Search]) -> dict[str, int]:
        """How many each search won; restarts of the same one together."""
        counts = dict.fromkeys((search.title for search in searches), 0)
        for search, stage in zip(searches, self.stages, strict=False):
            counts[search.title] += stage.solved
        return counts

    def require_sight(self, name: str) -> None:
        """Refuse a result of an attack of which no part could see anything."""
        tried = [stage for stage in self.stages if stage.began_with]
        if tried and all(stage.health.graphless for stage in tried):
            raise ModelError(
                f"{name} follows the gradient, but {NO_GRAPH}. Take an attack that needs none (Square, OnePixel, "
                "Boundary) or has such a part (Standard), or give it bpda(model, place) for the place that has none."
            )

    def _state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """All that the rest of the campaign depends on."""
        tensors = {
            "adversarial": self.adversarial,
            "after": self.after,
            "won": self.won,
            "stands": self.stands,
            "waiting": self.waiting,
            "generator": self.generator.get_state(),
            "global generator": torch.get_rng_state(),  # a random model draws from it
        }
        return tensors, {"stages": [asdict(stage) for stage in self.stages]}

    def _start(self, checkpoint: Checkpoint) -> None:
        """Go on from what was kept; where nothing was, see that something can be."""
        if (found := checkpoint.read()) is None:
            checkpoint.begin(*self._state())
            return
        tensors, device = found.tensors, self.original.device
        self.adversarial, self.after = tensors["adversarial"].to(device), tensors["after"].to(device)
        self.won = tensors["won"].to(device)
        self.stands, self.waiting = tensors["stands"].to(device), tensors["waiting"].to(device)
        self.generator.set_state(tensors["generator"])
        torch.set_rng_state(tensors["global generator"])
        for values in found.values["stages"]:
            health = values.pop("health")
            solved_at = {int(step): count for step, count in health.pop("solved_at").items()}  # JSON's keys are text
            self.stages.append(Stage(Health(**health, solved_at=solved_at), **values))


def _has_graph(model: Model, x: torch.Tensor) -> bool:
    """Whether the logits depend on the input in a graph that gradients can follow."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        logits = model.forward(x)
        return logits.requires_grad and torch.autograd.grad(logits.sum(), x, allow_unused=True)[0] is not None
