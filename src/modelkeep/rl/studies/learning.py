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
from modelkeep.rl.studies.curves import LearningCurve, LearningTable
from modelkeep.rl.tasks import JUDGES, AgentName, Task, train
from modelkeep.study.once import shared_folder
from modelkeep.study.paper import Cell, Claim, PaperStudy, Size
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
    with shared_folder("agent", [task.to_json(), seed], train) as kept:
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


def report(result: StudyResult) -> LearningTable:
    """A row per agent and game: what chance gets, and the mean return half-way, at the end and at best."""
    done = [(record.parameters["task"], record.value) for record in result.records if record.state == "done"]
    return LearningTable(
        study=result.study,
        where=LEARNING.where,
        cells=tuple(cell for task, value in done for cell in _cells(task, value)),
        curves=tuple(
            LearningCurve(
                task["agent"], task["game"], tuple(value["steps"]), tuple(value["returns"]), value["random"]["value"]
            )
            for task, value in done
        ),
        claims=tuple(_claim(agent, result) for agent in STEPS),
        provenance=result.provenance,
    )


def _cells(task: dict[str, Any], value: dict[str, Any]) -> list[Cell]:
    row = f"{task['agent']}, {task['game']}, {task['steps']:,} steps"
    trained = Estimate(**value["trained"])
    middle, best = value["returns"][len(value["returns"]) // 2], max(value["returns"])
    return [
        Cell(row, "chance", Estimate(**value["random"]), None),
        Cell(row, "half-way", Estimate(middle, middle, middle, trained.n), None),
        Cell(row, "at the end", trained, None, f"{value['seconds']:.0f} s"),
        Cell(row, "best on the way", Estimate(best, best, best, trained.n), None),
    ]


def _claim(agent: AgentName, result: StudyResult) -> Claim:
    """Not every agent learns every game so soon; three are enough to see that it learns."""
    better: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for record in result.records:
        if record.parameters["task"]["agent"] == agent:
            done, value = record.state == "done", record.value
            learns = value["trained"]["low"] > value["random"]["high"] if done else None
            better[learns].append(record.parameters["task"]["game"])
    found = [("yes", better[True]), ("no", better[False]), ("missing", better[None])]
    return Claim(
        f"{agent} ends above chance beyond doubt in at least three games.",
        "; ".join(f"{word}: {', '.join(games)}" for word, games in found if games) + ".",
        True if len(better[True]) >= 3 else None if better[None] else False,
    )


LEARNING = PaperStudy(
    name="agents",
    where="paper 000, section 4: the three agents, on MinAtar and Atari",
    shows="how well A2C, Rainbow and IMPALA learn, beside chance",
    trials=trials,
    report=report,
    sizes=("small", "medium"),
)
