"""The one loop that agents learn in: advance, play a few episodes now and then to see how good it is, checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import sqrt
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from modelkeep.core import progress
from modelkeep.core.errors import CheckpointError, bad_parameter
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.results import Estimate, Provenance, Result
from modelkeep.core.version import __version__
from modelkeep.rl.agent import Agent
from modelkeep.rl.environments.vector import Environments
from modelkeep.rl.evaluation import play_episodes
from modelkeep.training import checkpoint as checkpoints
from modelkeep.training import interruption
from modelkeep.training.batches import derive_seed
from modelkeep.training.checkpoint import Snapshot, Wording
from modelkeep.training.part import tensors_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHECKPOINT_SECONDS = 60.0

LEARNING = Wording(
    keeps="checkpoint",
    redo="learn",
    unwritten="Learning stopped; an earlier checkpoint, if there is one, is untouched. Make room or give another path, "
    "then learn again.",
)


@dataclass(frozen=True)
class AgentEvaluation:
    """How good an agent was after `step` environment steps: by level, the mean return of the episodes it played."""

    step: int
    levels: dict[str, Estimate]
    seconds: float = field(compare=False)

    @property
    def mean_return(self) -> Estimate:
        """The mean over the levels; their errors are independent, so that their squares add up."""
        found = list(self.levels.values())
        if len(found) == 1:
            return found[0]
        value = sum(level.value for level in found) / len(found)
        below, above = (
            sqrt(sum((end - level.value) ** 2 for end, level in zip(ends, found, strict=True))) / len(found)
            for ends in ([level.low for level in found], [level.high for level in found])
        )
        return Estimate(value, value - below, value + above, sum(level.n for level in found), found[0].level)


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned(Result, kind="learned"):
    """A finished run of an agent: one evaluation per point of the grid, the first before it learned anything."""

    agent: str
    environment: str
    evaluations: tuple[AgentEvaluation, ...]

    @property
    def last(self) -> AgentEvaluation:
        """The last evaluation."""
        return self.evaluations[-1]

    def rows(self) -> list[tuple[str, str]]:
        best = max(self.evaluations, key=lambda judged: judged.mean_return.value)
        levels = self.last.levels
        return [
            ("agent", f"{self.agent} on {self.environment}"),
            ("steps", f"{self.last.step:,}"),
            ("mean return at first", str(self.evaluations[0].mean_return)),
            ("at the end", str(self.last.mean_return)),
            ("best", f"{best.mean_return} after {best.step:,} steps"),
            *((f"at the end, {name}", str(found)) for name, found in levels.items() if len(levels) > 1),
        ]

    def draw(self) -> Figure:
        """The mean return over the steps, with its interval, a line for each level."""
        from modelkeep.core import plots

        drawn = plots.figure()
        ax = plots.axes(drawn, f"{self.agent} on {self.environment}", "environment steps", "mean return")
        steps = [judged.step for judged in self.evaluations]
        for i, level in enumerate(self.last.levels):
            found = [judged.levels[level] for judged in self.evaluations]
            colour = plots.PALETTE[i % len(plots.PALETTE)]
            ax.fill_between(steps, [e.low for e in found], [e.high for e in found], color=colour, alpha=0.18, lw=0)
            ax.plot(steps, [e.value for e in found], color=colour, lw=2, label=level)
        if len(self.last.levels) > 1:
            plots.legend(drawn, ax)
        return drawn


def learn(
    agent: Agent,
    judge: Environments | Sequence[Environments],
    *,
    steps: int,
    evaluate_every: int,
    episodes: int,
    seed: int = 0,
    checkpoint: str | Path | None = None,
) -> Learned:
    """Let `agent` learn for `steps` environment steps, and play in `judge` on a fixed grid of steps.

    With a `checkpoint` path the whole state is written there every minute, after Ctrl-C and at the end: weights,
    optimizer, environments, replay and randomness. Called again with an agent made in the same way, `learn` goes on
    from it and ends with the same bits as a run that was never stopped.

    Args:
        agent: Learns in its own environments.
        judge: Other copies of the game, for evaluation only; each evaluation begins them anew. Where it learns several
            levels, those of each.
        steps: Environment steps of the whole run.
        evaluate_every: The grid: an evaluation before the first step, and one after each such number of steps.
        episodes: How many are played in an evaluation, of each level.
        seed: Decides the evaluations; the agent has its own.
        checkpoint: Where to keep the state of the run.
    """
    for name, value in (("steps", steps), ("evaluate_every", evaluate_every), ("episodes", episodes)):
        if value < 1:
            raise bad_parameter("learn", name, "at least 1", value)
    path = None if checkpoint is None else Path(checkpoint)
    judges = tuple(judge) if isinstance(judge, Sequence) else (judge,)
    if not judges or len({level.name for level in judges}) < len(judges):
        raise bad_parameter("learn", "judge", "a game, or several that differ", [level.name for level in judges])
    run = _Run(agent, judges, steps, evaluate_every, episodes, seed)
    run.start(path)
    with interruption.hold_back(path is not None) as interrupted, progress.task("learning", steps) as task:
        task.advance(run.step)
        written = shown = perf_counter()
        while run.step < steps and not interrupted():
            run.advance()
            now = perf_counter()
            if run.step >= steps or interrupted() or now - written >= CHECKPOINT_SECONDS:
                run.write(path)
                written = perf_counter()
            if run.step >= steps or now - shown >= 0.2:
                task.advance(run.step - task.done, run.note)
                shown = now
    return run.finish()


class _Run:
    """A run under way, and the state that a checkpoint keeps."""

    def __init__(
        self, agent: Agent, judges: Sequence[Environments], steps: int, evaluate_every: int, episodes: int, seed: int
    ) -> None:
        self.agent, self.judges = agent, judges
        self.evaluate_every, self.episodes, self.seed = evaluate_every, episodes, seed
        self.network = fingerprint(tensors_of(agent.network))
        tensors, values = agent.state()
        self.identity: dict[str, Any] = {
            "agent": type(agent).__name__,
            "settings": json.loads(json.dumps(asdict(agent.settings))),  # as a checkpoint gives them back
            "network": self.network,
            # A frozen part has no other trace; and the agent's seed, games and replay are in its state.
            "trained": [name for name, parameter in agent.network.named_parameters() if parameter.requires_grad],
            "begins": fingerprint(tensors, json.dumps(values, sort_keys=True)),
            "environment": "+".join(judge.name for judge in judges),
            "copies": [judge.count for judge in judges],
            "steps": steps,
            "evaluate_every": evaluate_every,
            "episodes": episodes,
            "seed": seed,
        }
        self.step = 0
        self.evaluations: list[AgentEvaluation] = []
        self.began = perf_counter()

    @property
    def note(self) -> str:
        """How it goes, in a few words."""
        return f"mean return {self.evaluations[-1].mean_return.value:.2f}"

    def start(self, path: Path | None) -> None:
        """From the checkpoint, where there is one; otherwise with the first evaluation."""
        payload = None if path is None else checkpoints.read(path, LEARNING)
        if payload is None:
            self.evaluate()
            return
        found = Snapshot.from_bytes(payload, f"The checkpoint {path}", LEARNING)
        differ = checkpoints.differences(found.identity, self.identity)
        if differ:
            raise CheckpointError(
                f"The checkpoint {path} belongs to another run: {'; '.join(differ.values())}. Give another path, or "
                "delete it to learn from the start."
            )
        self.agent.restore((found.tensors, found.values["agent"]))
        self.step = found.values["step"]
        self.evaluations = TypeAdapter(list[AgentEvaluation]).validate_python(found.values["evaluations"])
        self.began = perf_counter() - found.values["seconds"]

    def advance(self) -> None:
        """Learn a little, and evaluate where the grid says so."""
        before = self.step
        self.step += self.agent.advance()
        if self.step // self.evaluate_every > before // self.evaluate_every:
            self.evaluate()

    def evaluate(self) -> None:
        """Play, and note the mean return."""
        seed = derive_seed(self.seed, "evaluation", self.step) % 2**31
        levels = {}
        for judge in self.judges:
            played = play_episodes(self.agent.player(seed), judge, self.episodes, seed)
            levels[judge.name] = Estimate.bootstrap(played, seed)
        self.evaluations.append(AgentEvaluation(self.step, levels, perf_counter() - self.began))

    def write(self, path: Path | None) -> None:
        """Write the checkpoint."""
        if path is None:
            return
        tensors, values = self.agent.state()
        kept = {
            "agent": values,
            "step": self.step,
            "evaluations": [asdict(judged) for judged in self.evaluations],
            "seconds": perf_counter() - self.began,
        }
        checkpoints.write(path, Snapshot(tensors, kept, self.identity).to_bytes(), LEARNING)

    def finish(self) -> Learned:
        """The result."""
        return Learned(
            provenance=Provenance(self.network, None, self.seed, perf_counter() - self.began, __version__),
            agent=self.identity["agent"],
            environment=self.identity["environment"],
            evaluations=tuple(self.evaluations),
        )
