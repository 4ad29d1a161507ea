"""Campaign: searches one after the other, each on the examples that still stand; each success verified afresh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from modelkeep.attack.case import Case, Search
from modelkeep.attack.checkpoint import Checkpoint
from modelkeep.attack.health import Health, note_blind_success
from modelkeep.core import progress
from modelkeep.core.access import Labels, Weights
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
    """All examples of an attack, and how each of them stands by now."""

    model: Model
    original: torch.Tensor
    labels: torch.Tensor
    goal: torch.Tensor
    targeted: bool
    ball: Ball
    allowed: torch.Tensor | None
    after: torch.Tensor
    random: bool
    stages: list[Stage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.adversarial = self.original.clone()
        self.stands = ~self._succeeded(self.after, self.goal)
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
                        self.waiting = torch.nonzero(self.stands).flatten()
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
        view = search.sees(self.model)
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
        )
        found = search.search(case)  # type: ignore[arg-type] # it sees what it asked for
        solved = self._keep_what_holds(case, found, index)
        stage.solved += solved
        stage.queries += view.queries
        return solved

    def _keep_what_holds(self, case: Case[Labels], found: torch.Tensor, index: torch.Tensor) -> int:
        """A fresh pass over the finished inputs, as their user would run them: only this counts as success."""
        found = torch.where(torch.isfinite(found), found.detach(), case.original)
        found = self.ball.exactly(case.inside(found), case.original)
        labels = self.model.predict(found)
        won = self._succeeded(labels, case.goal)
        self.adversarial[index[won]] = found[won]
        self.after[index[won]] = labels[won]
        self.stands[index[won]] = False
        return int(won.sum())

    def _succeeded(self, labels: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        return labels == goal if self.targeted else labels != goal

    def notes(self, searches: Sequence[Search]) -> tuple[str, ...]:
        """What all stages noticed, each thing once."""
        found: dict[str, None] = {}
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

    def _state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """All that the rest of the campaign depends on."""
        tensors = {
            "adversarial": self.adversarial,
            "after": self.after,
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
        self.stands, self.waiting = tensors["stands"].to(device), tensors["waiting"].to(device)
        self.generator.set_state(tensors["generator"])
        torch.set_rng_state(tensors["global generator"])
        for values in found.values["stages"]:
            health = values.pop("health")
            solved_at = {int(step): count for step, count in health.pop("solved_at").items()}  # JSON's keys are text
            self.stages.append(Stage(Health(**health, solved_at=solved_at), **values))
