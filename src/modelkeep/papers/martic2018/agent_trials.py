"""The trials of completed agents: which agents learn which games at each size, and what one trial does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from modelkeep.completion import agents
from modelkeep.completion.curve import Curve
from modelkeep.completion.hardness import Retraining
from modelkeep.completion.part import Part
from modelkeep.papers.martic2018.agent_learning import beats_chance, learn_task, train_original
from modelkeep.papers.study import Size
from modelkeep.rl.environments.doom import SCENARIOS
from modelkeep.rl.tasks import AgentName, Task
from modelkeep.study.folder import workdir
from modelkeep.study.names import trial
from modelkeep.study.record import Record
from modelkeep.study.trials import Trial
from modelkeep.training.batches import derive_seed

PARTS: dict[AgentName, tuple[Part, ...]] = {
    "A2C": (
        Part("Conv 1", ("conv1",)),
        Part("Conv 2", ("conv2",)),
        Part("Linear 1", ("linear",)),
        Part("P", ("policy",)),
        Part("V", ("value",)),
    ),
    "Rainbow": (Part("Conv 1", ("conv1",)), Part("Conv 2", ("conv2",))),
    "IMPALA": (
        Part("S1 Conv 1", ("section1.conv1",)),
        Part("Linear", ("linear",)),
        Part("LSTM", ("lstm",)),
    ),
}
"""What is reset in MinAtar's small networks, from low to high."""

ATARI = (
    "Alien", "Amidar", "Assault", "Asterix", "Asteroids", "Atlantis", "BankHeist", "BattleZone", "BeamRider", "Berzerk",
    "Bowling", "Boxing", "Breakout", "Centipede", "ChopperCommand", "CrazyClimber", "Defender", "DemonAttack",
    "DoubleDunk", "Enduro", "FishingDerby", "Freeway", "Frostbite", "Gopher", "Gravitar", "Hero", "IceHockey",
    "Jamesbond", "Kangaroo", "Krull", "KungFuMaster", "MontezumaRevenge", "MsPacman", "NameThisGame", "Phoenix",
    "Pitfall", "Pong", "PrivateEye", "Qbert", "Riverraid", "RoadRunner", "Robotank", "Seaquest", "Skiing", "Solaris",
    "SpaceInvaders", "StarGunner", "Surround", "Tennis", "TimePilot", "Tutankham", "UpNDown", "Venture",
    "VideoPinball", "WizardOfWor", "YarsRevenge", "Zaxxon",
)  # fmt: skip


_DEEPER: dict[AgentName, tuple[Part, ...]] = {
    "A2C": (Part("Conv 3", ("conv3",)),),
    "Rainbow": (Part("Conv 3", ("conv3",)),),
    "IMPALA": (Part("S2 Conv 1", ("section2.conv1",)), Part("S3 Conv 1", ("section3.conv1",))),
}
"""What the paper's networks have besides."""


def parts(task: Task) -> list[Part]:
    """The parts of a task's network that are reset, from low to high."""
    small = PARTS[task.agent]
    if task.small:
        return list(small)
    convolutions = sum("Conv" in part.name for part in small)
    return [*small[:convolutions], *_DEEPER[task.agent], *small[convolutions:]]


def tasks(agent: AgentName, size: Size) -> list[Task]:
    """The games of an agent at a size; the paper's are Atari's, and for IMPALA Doom's in place of DeepMind Lab's.

    IMPALA is one agent that learns all its levels jointly; at the paper's size in a population of 12.
    """
    few = ["minatar/breakout", "minatar/space_invaders"]
    if size == "small":
        return {
            "A2C": [_task("A2C", few[0], 16, 96_000, 3_200, 32)],
            "Rainbow": [_task("Rainbow", few[0], 16, 32_000, 1_600, 32)],
            "IMPALA": [],
        }[agent]
    if size == "medium":
        return {
            "A2C": [_task("A2C", game, 16, 400_000, 10_000, 32) for game in ["minatar/asterix", *few]],
            "Rainbow": [_task("Rainbow", game, 16, 96_000, 2_400, 32) for game in few],
            "IMPALA": [_task("IMPALA", "+".join(few), 16, 512_000, 12_800, 32)],
        }[agent]
    if agent == "IMPALA":
        levels = "+".join(f"doom/{scenario}" for scenario in SCENARIOS)
        return [replace(_task("IMPALA", levels, 4, 1_000_000_000, 10_000_000, 100), population=12)]
    steps, every = {"A2C": (50_000_000, 500_000), "Rainbow": (5_000_000, 50_000)}[agent]
    return [_task(agent, f"atari/{game}", 16 if agent == "A2C" else 1, steps, every, 100) for game in ATARI]


def _task(agent: AgentName, game: str, copies: int, steps: int, every: int, episodes: int) -> Task:
    return Task(agent=agent, game=game, copies=copies, steps=steps, evaluate_every=every, episodes=episodes)


def seeds(agent: AgentName, size: Size) -> int:
    """How many runs: ten for A3C and five for IMPALA in the paper, otherwise three."""
    return {"A2C": 10, "IMPALA": 5, "Rainbow": 3}[agent] if size == "paper" else 3


def original_trials(agent: AgentName, size: Size, seed: int) -> list[Trial]:
    """The trained agents beside chance: they decide which games count."""
    runs = range(seed, seed + seeds(agent, size))
    return [Trial.of(learn_task, {"task": task.to_json()}, run) for task in tasks(agent, size) for run in runs]


def retraining_trials(
    agent: AgentName, size: Size, seed: int, procedures: Sequence[str], *, replay: Sequence[bool] = (False,)
) -> list[Trial]:
    """One per game, part, procedure and run; with the replay buffer kept, reset, or both."""
    return [
        Trial.of(
            complete,
            {"task": task.to_json(), "part": part.to_json(), "procedure": procedure, "keep_replay": keep},
            run,
        )
        for task in tasks(agent, size)
        for part in parts(task)
        for procedure in procedures
        for keep in replay
        for run in range(seed, seed + seeds(agent, size))
    ]


@trial("martic2018/agent-completion", formerly=("modelkeep.completion.studies.agents:complete",))
def complete(task: dict[str, Any], part: dict[str, Any], procedure: str, keep_replay: bool, seed: int) -> Any:
    """A trial: at each level, the loss curves of the original training and of one retraining."""
    wanted = Task(**task)
    agent, first = train_original(wanted, seed)
    again = agents.complete(
        wanted,
        agent,
        Part.from_json(part),
        procedure,
        seed=derive_seed(seed, "retraining") % 2**31,
        keep_replay=keep_replay,
        checkpoint=workdir() / "learning",
    )
    before, after = agents.loss_curves(first), agents.loss_curves(again)
    return {
        "levels": {
            level: {"original": before[level].to_json(), "retrained": after[level].to_json()} for level in before
        },
        "seconds_per_step": again.provenance.seconds / again.last.step,
        "original_seconds_per_step": first.provenance.seconds / first.last.step,
    }


def better_than_chance(records: Iterable[Record], agent: AgentName) -> dict[str, bool]:
    """By level: whether each run's trained agent is better than chance beyond doubt. Levels where one is not are left
    out, as in the paper."""
    verdicts: dict[str, bool] = {}
    for record in records:
        given = record.parameters
        if record.state == "done" and "part" not in given and given.get("task", {}).get("agent") == agent:
            for name, level in record.value["levels"].items():
                verdicts[name] = verdicts.get(name, True) and beats_chance(level)
    return verdicts


def retrainings(records: Sequence[Record], agent: AgentName) -> list[Retraining]:
    """What was retrained, at the levels that count. Only parts and procedures that are done in all runs at all."""
    counted = {level for level, better in better_than_chance(records, agent).items() if better}
    found: dict[tuple[str, str], list[Retraining]] = {}
    missing: set[tuple[str, str]] = set()
    for record in records:
        given = record.parameters
        if "part" not in given or given.get("task", {}).get("agent") != agent:
            continue
        levels = [level for level in Task(**given["task"]).games if level in counted]
        procedure = given["procedure"]
        if agent == "Rainbow":
            procedure += " kept" if given["keep_replay"] else " reset"
        key = given["part"]["name"], procedure
        if record.state != "done":
            if levels:
                missing.add(key)
            continue
        value = record.value
        found.setdefault(key, []).extend(
            Retraining(
                part=key[0],
                procedure=key[1],
                seed=record.seed,
                original=Curve.from_json(value["levels"][level]["original"]),
                retrained=Curve.from_json(value["levels"][level]["retrained"]),
                seconds_per_step=value["seconds_per_step"],
                original_seconds_per_step=value["original_seconds_per_step"],
                setting=level,
            )
            for level in levels
        )
    return [each for key, group in found.items() if key not in missing for each in group]
