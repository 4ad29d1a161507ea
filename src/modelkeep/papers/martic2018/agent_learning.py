"""Do the agents learn? Their returns over environment steps, beside chance, in games of MinAtar and in one of Atari."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.martic2018.learning_curves import LearningCurve, LearningTable
from modelkeep.papers.result import Claim
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell
from modelkeep.rl.agent import Agent
from modelkeep.rl.evaluation import play_episodes, random_player
from modelkeep.rl.learning import Learned
from modelkeep.rl.tasks import AgentName, Task, train
from modelkeep.study.folder import shared_folder
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

GAMES = ("minatar/asterix", "minatar/breakout", "minatar/freeway", "minatar/space_invaders")
STEPS: dict[AgentName, int] = {"A2C": 500_000, "Rainbow": 100_000, "IMPALA": 500_000}
COPIES: dict[AgentName, int] = {"A2C": 16, "Rainbow": 16, "IMPALA": 32}
_BREAKOUT = Task(
    agent="A2C", game="atari/Breakout", copies=16, steps=1_000_000, evaluate_every=50_000, episodes=32
)  # an hour on two cores
_JOINTLY = Task(
    agent="IMPALA",
    game="minatar/breakout+minatar/space_invaders",
    copies=16,
    steps=1_000_000,
    evaluate_every=100_000,
    episodes=64,
)


def train_original(task: Task, seed: int) -> tuple[Agent, Learned]:
    """The agent of a task, trained by the first trial that needs it and kept for the others."""
    with shared_folder("agent", [task.to_json(), seed]) as kept:
        return train(task, seed=seed, checkpoint=kept / "learning")


@trial("martic2018/agent", formerly=("modelkeep.rl.studies.learning:learned",))
def learn_task(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """A trial: how good an agent becomes at each level, evaluation by evaluation, and how good chance is."""
    wanted = Task(**task)
    _, found = train_original(wanted, seed)
    levels: dict[str, Any] = {}
    for games in wanted.judges():
        chance = play_episodes(random_player(games.actions, seed), games, wanted.episodes, seed)
        games.close()
        levels[games.name] = {
            "returns": [judged.levels[games.name].value for judged in found.evaluations],
            "trained": asdict(found.last.levels[games.name]),
            "random": asdict(Estimate.bootstrap(chance, seed)),
        }
    steps = [judged.step for judged in found.evaluations]
    return {"steps": steps, "levels": levels, "seconds": found.provenance.seconds}


def tasks(size: Size) -> list[Task]:
    """Every agent in four games. At medium also Atari's Breakout by A2C, which takes longest and begins first, and one
    IMPALA that learns two games jointly."""
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
    return small if size == "small" else [_BREAKOUT, *small, _JOINTLY]


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per agent and game."""
    return [Trial.of(learn_task, {"task": task.to_json()}, seed) for task in tasks(size)]


def report(result: StudyResult) -> LearningTable:
    """A row per agent and game: what chance gets, and the mean return half-way, at the end and at best."""
    done = [
        (Task(**record.parameters["task"]), game, record.value, level)
        for record in result.records
        if record.state == "done"
        for game, level in record.value["levels"].items()
    ]
    return LearningTable(
        study=result.study,
        cells=tuple(cell for task, game, value, level in done for cell in _cells(task, game, value["seconds"], level)),
        curves=tuple(
            LearningCurve(_who(task), game, tuple(value["steps"]), tuple(level["returns"]), level["random"]["value"])
            for task, game, value, level in done
        ),
        claims=tuple(_claim(who, result) for who in dict.fromkeys(_who(task) for task in _tasks(result))),
        provenance=result.provenance,
    )


def _tasks(result: StudyResult) -> list[Task]:
    return [Task(**record.parameters["task"]) for record in result.records]


def _who(task: Task) -> str:
    return task.agent if len(task.games) == 1 else f"{task.agent}, jointly"


def _cells(task: Task, game: str, seconds: float, level: dict[str, Any]) -> list[Cell]:
    row = f"{_who(task)}, {game}, {task.steps:,} steps"
    trained = Estimate(**level["trained"])
    middle, best = level["returns"][len(level["returns"]) // 2], max(level["returns"])
    return [
        Cell(row, "chance", Estimate(**level["random"]), None),
        Cell(row, "half-way", Estimate(middle, middle, middle, trained.n), None),
        Cell(row, "at the end", trained, None, f"{seconds:.0f} s"),
        Cell(row, "best on the way", Estimate(best, best, best, trained.n), None),
    ]


def _claim(who: str, result: StudyResult) -> Claim:
    """Not every agent learns every game so soon; three are enough to see that it learns."""
    better: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for record, task in zip(result.records, _tasks(result), strict=True):
        for game in task.games if _who(task) == who else ():
            level = record.value["levels"][game] if record.state == "done" else None
            better[level and beats_chance(level)].append(game)
    found = [("yes", better[True]), ("no", better[False]), ("missing", better[None])]
    wanted = min(3, sum(map(len, better.values())))
    return Claim(
        f"{who}: ends above chance beyond doubt in at least {wanted} games.",
        "; ".join(f"{word}: {', '.join(games)}" for word, games in found if games) + ".",
        True if len(better[True]) >= wanted else None if better[None] else False,
    )


def beats_chance(level: dict[str, Any]) -> bool:
    """Whether the agent of a trial was better than chance at a level beyond doubt, when it was trained."""
    better: bool = level["trained"]["low"] > level["random"]["high"]
    return better


LEARNING = declare(
    "study",
    "agents",
    paper="Martic2018, section 4: the three agents, on MinAtar and Atari",
    does="how well A2C, Rainbow and IMPALA learn, beside chance",
    extra="rl",
)(PaperStudy(trials, report, sizes=("small", "medium")))
