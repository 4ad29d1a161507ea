"""The report on what the agents learn: its verdicts, and a panel for each game."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from modelkeep.papers.martic2018.agent_learning import GAMES, LEARNING
from modelkeep.papers.martic2018.learning_curves import LearningTable
from modelkeep.rl.tasks import Task
from modelkeep.study.trials import Trial
from records import made


def estimate(value: float) -> dict[str, Any]:
    return {"value": value, "low": value - 0.1, "high": value + 0.1, "n": 9, "level": 0.95}


def reported(*, poor: Collection[str] = (), failed: Collection[str] = ()) -> LearningTable:
    """Agents that learn every game, but for Rainbow in the poor ones and in those where it failed."""

    def value(trial: Trial) -> dict[str, Any] | None:
        task = Task(**trial.parameters["task"])
        rainbow = task.agent == "Rainbow"
        if rainbow and task.game in failed:
            return None
        trained = 0.6 if rainbow and task.game in poor else 5.0
        level = {"returns": [0.5, 7.0, trained], "trained": estimate(trained), "random": estimate(0.5)}
        return {"steps": [0, 50, 100], "levels": dict.fromkeys(task.games, level), "seconds": 9.0}

    table = LEARNING.report(made(LEARNING.trials("medium", 0), value))
    assert isinstance(table, LearningTable)
    return table


@pytest.mark.parametrize(
    ("poor", "failed", "holds"),
    [((), (), True), (GAMES[:1], (), True), (GAMES[:1], GAMES[1:2], None), (GAMES[:2], (), False)],
    ids=["all", "three of four", "one is missing", "two of four"],
)
def test_an_agent_learns_where_it_ends_above_chance_in_three_games(
    poor: tuple[str, ...], failed: tuple[str, ...], holds: bool | None
) -> None:
    verdicts = {claim.says.partition(":")[0]: claim.holds for claim in reported(poor=poor, failed=failed).claims}
    assert verdicts == {"A2C": True, "Rainbow": holds, "IMPALA": True, "IMPALA, jointly": True}


def test_a_row_tells_the_way_and_the_end() -> None:
    cells = {cell.column: cell for cell in reported().cells if cell.row.startswith("IMPALA, minatar/breakout")}
    assert [cells[column].ours.value for column in ("chance", "half-way", "at the end", "best on the way")] == [  # type: ignore[union-attr]
        0.5, 7.0, 5.0, 7.0,
    ]  # fmt: skip


def test_each_game_is_drawn_with_its_agents_and_chance() -> None:
    table = reported(failed=GAMES)
    drawn = {ax.get_title(loc="left"): ax for ax in table.draw().axes if ax.get_visible()}
    assert set(drawn) == {"atari/Breakout", *GAMES}
    lines = {line.get_label(): np.asarray(line.get_xydata()).tolist() for line in drawn[GAMES[0]].get_lines()}
    assert set(lines) == {"A2C", "IMPALA", "chance"}
    assert lines["A2C"] == [[0, 0.5], [0.05, 7.0], [0.1, 5.0]]
    assert {y for _, y in lines["chance"]} == {0.5}
    joint = [line.get_label() for line in drawn["minatar/breakout"].get_lines()]
    assert joint == ["A2C", "IMPALA", "IMPALA, jointly", "chance"]
    assert LEARNING.report(made(LEARNING.trials("small", 0), lambda trial: None)).draw().axes  # nothing is done yet
