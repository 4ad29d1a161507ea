"""Do the agents learn? Their returns over environment steps, beside chance, in games of MinAtar and in one of Atari."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from modelkeep.results import Estimate
from modelkeep.rl.agent import Agent
from modelkeep.rl.environments.making import make
from modelkeep.rl.learning import Learned
from modelkeep.rl.play import random_player, returns
from modelkeep.rl.tasks import JUDGES, AgentName, Task, train
from modelkeep.study.once import shared_folder
from modelkeep.study.paper import Cell, Claim, PaperStudy, PaperTable, Size
from modelkeep.study.study import StudyResult
from modelkeep.study.trial import Trial

GAMES = ("minatar/asterix", "minatar/breakout", "minatar/freeway", "minatar/space_invaders")
STEPS: dict[AgentName, int] = {"A2C": 500_000, "Rainbow": 100_000, "IMPALA": 500_000}
COPIES: dict[AgentName, int] = {"A2C": 16, "Rainbow": 16, "IMPALA": 32}
BREAKOUT = Task(
    agent="A2C", game="atari/Breakout", copies=16, steps=1_000_000, evaluate_every=50_000, episodes=32
)  # an hour on two cores


def original(task: Task, seed: int) -> tuple[Agent, Learned]:
    """The agent of a task, trained by the first trial that needs it and kept for the others."""
    with shared_folder("agent", [task.to_json(), seed]) as kept:
        return train(task, seed=seed, checkpoint=kept / "learning")


def learned(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """A trial: how good an agent becomes, evaluation by evaluation, and how good chance is."""
    wanted = Task(**task)
    _, found = original(wanted, seed)
    games = make(wanted.game, JUDGES)
    try:
        chance = returns(random_player(games.actions, seed), games, wanted.episodes, seed)
    finally:
        games.close()
    return {
        "steps": [judged.step for judged in found.evaluations],
        "returns": [judged.mean_return.value for judged in found.evaluations],
        "trained": asdict(found.last.mean_return),
        "random": asdict(Estimate.bootstrap(chance, seed)),
        "seconds": found.provenance.seconds,
    }


def tasks(size: Size) -> list[Task]:
    """Every agent in four games; at medium, Atari's Breakout too, by A2C, which takes longest and begins first."""
    small = [
        Task(
            agent=agent,
            game=game,
            copies=COPIES[agent],
            steps=steps,
            evaluate_every=steps // 10,
            episodes=64,
        )
        for agent, steps in STEPS.items()
        for game in GAMES
    ]
    return small if size == "small" else [BREAKOUT, *small]


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per agent and game."""
    return [Trial.of(learned, {"task": task.to_json()}, seed) for task in tasks(size)]


def report(result: StudyResult) -> PaperTable:
    """A row per agent and game: what chance gets, and the mean return half-way, at the end and at best."""
    cells, worse, missing = [], [], 0
    for record in result.records:
        task = record.parameters["task"]
        row = f"{task['agent']}, {task['game']}, {task['steps']:,} steps"
        if record.state != "done":
            missing += 1
            continue
        value = record.value
        chance, trained = Estimate(**value["random"]), Estimate(**value["trained"])
        middle, best = value["returns"][len(value["returns"]) // 2], max(value["returns"])
        cells += [
            Cell(row, "chance", chance, None),
            Cell(row, "half-way", Estimate(middle, middle, middle, trained.n), None),
            Cell(row, "at the end", trained, None, f"{value['seconds']:.0f} s"),
            Cell(row, "best on the way", Estimate(best, best, best, trained.n), None),
        ]
        if not trained.low > chance.high:
            worse.append(row)
    says = "Every agent learns every game: it ends above chance beyond doubt."
    found = f"{len(result.records) - missing} runs, of which {len(worse)} do not: {', '.join(worse) or 'none'}."
    return PaperTable(
        study=result.study,
        where=LEARNING.where,
        cells=tuple(cells),
        claims=(Claim(says, found, None if missing else not worse),),
        provenance=result.provenance,
    )


LEARNING = PaperStudy(
    name="agents",
    where="paper 000, section 4: the three agents, on MinAtar and Atari",
    shows="how well A2C, Rainbow and IMPALA learn, beside chance",
    trials=trials,
    report=report,
    sizes=("small", "medium"),
)
