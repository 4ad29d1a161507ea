"""The findings about agents: fed with the paper's own numbers, the reports judge as the paper does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from completion.fed import curves, report, verdict
from modelkeep.completion.part import Part
from modelkeep.papers.martic2018.agent_trials import tasks
from modelkeep.papers.martic2018.completion import AGENTS, COMPLETION
from modelkeep.papers.martic2018.paper_figures import ALEXNET
from modelkeep.papers.martic2018.reinforcement import EXPERIENCE, LAYERS, OTHER_PROCEDURES, PRINTED
from modelkeep.papers.martic2018.tables import CompletionTable
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.rl.environments.atari import games
from modelkeep.rl.environments.doom import SCENARIOS
from modelkeep.rl.tasks import AgentName, Task, new_network
from modelkeep.study.trials import Trial
from records import Values

AGENT_NAMES: tuple[AgentName, ...] = ("A2C", "Rainbow", "IMPALA")


def estimate(value: float) -> dict[str, Any]:
    return {"value": value, "low": value - 0.1, "high": value + 0.1, "n": 9, "level": 0.95}


def papers(trial: Trial, poor: str = "") -> dict[str, Any]:
    """Appendix C's mean for each trial; what it does not print is as T1. Agents are good, but in a `poor` game."""
    given = trial.parameters
    if "setting" in given:  # a classifier's: nothing is asked of it here but that it is easier
        table, procedure = ALEXNET, "T1"
    else:
        if "part" not in given:
            levels = {
                game: {
                    "returns": [0.0, 5.0],
                    "trained": estimate(0.1 if game == poor else 5.0),
                    "random": estimate(0.1),
                }
                for game in Task(**given["task"]).games
            }
            return {"steps": [0, 10], "levels": levels, "seconds": 1.0}
        agent: AgentName = given["task"]["agent"]
        table, procedure = PRINTED[agent], given["procedure"]
        if agent == "Rainbow":
            procedure += " kept" if given["keep_replay"] else " reset"
    part = given["part"]["name"]
    if (part, procedure, 1.0) not in table:
        procedure, part = "T1", part if (part, "T1", 1.0) in table else "Conv 3"
    ratios = {alpha: row.mean for (name, by, alpha), row in table.items() if (name, by) == (part, procedure)}
    return fed(trial, ratios)


def fed(trial: Trial, ratios: dict[float, float]) -> dict[str, Any]:
    """What a trial gives whose curves have these ratios: a classifier's, or an agent's at each of its levels."""
    found = curves(ratios)
    if "task" not in trial.parameters:
        return found
    seconds = {"seconds_per_step": found.pop("seconds_per_step"), "original_seconds_per_step": 0.01}
    return {"levels": dict.fromkeys(Task(**trial.parameters["task"]).games, found), **seconds}


def test_lower_layers_are_harder_as_in_figure_4() -> None:
    found = report(LAYERS, papers)
    assert [claim.holds for claim in found.claims if "lower layers" in claim.says] == [True, True, True]
    [cell] = [cell for cell in found.cells if (cell.row, cell.column) == ("A2C: Conv 1, T1", "α = 1")]
    assert cell.ours is not None
    assert cell.ours.value == pytest.approx(0.94, abs=1e-3)
    assert cell.paper == 0.94


def test_experience_helps_as_in_figure_5() -> None:
    claims = [claim for claim in report(EXPERIENCE, papers).claims if "experience" in claim.says]
    assert len(claims) == 6, "two convolutions at three α"
    assert all(claim.holds for claim in claims)


def test_agents_are_harder_than_classifiers_where_their_layers_are() -> None:
    """By the paper's own tables layers of agents differ so much (V 0.11, Conv 1 0.94) that means cannot tell."""
    assert verdict(report(AGENTS, papers), "RL models are harder") is None
    levels = {"agents": {0.5: 0.5, 1.0: 0.6}, "classifiers": {0.5: 0.1, 1.0: 0.3}}

    def apart(trial: Trial) -> dict[str, Any]:
        if "part" not in trial.parameters:
            return papers(trial)
        kind = "agents" if "task" in trial.parameters else "classifiers"
        return fed(trial, levels[kind])

    assert verdict(report(AGENTS, apart), "RL models are harder") is True
    levels = {"agents": levels["classifiers"], "classifiers": levels["agents"]}
    assert verdict(report(AGENTS, apart), "RL models are harder") is False


def test_a_game_that_a_trained_agent_did_not_learn_is_left_out_and_named() -> None:
    found = report(LAYERS, lambda trial: papers(trial, poor="minatar/breakout"), "medium")
    [claim] = [claim for claim in found.claims if "(A2C)" in claim.says]
    assert claim.found == "left out: minatar/breakout."
    assert any(cell.row.startswith("A2C: Conv 1") and cell.ours is not None for cell in found.cells)


def test_a_level_that_the_joint_agent_did_not_learn_is_left_out_and_the_others_count() -> None:
    found = report(LAYERS, lambda trial: papers(trial, poor="minatar/space_invaders"), "medium")
    [claim] = [claim for claim in found.claims if "(IMPALA)" in claim.says]
    assert claim.found == "left out: minatar/space_invaders."
    [cell] = [cell for cell in found.cells if (cell.row, cell.column) == ("IMPALA: LSTM, T1", "α = 1")]
    assert cell.ours is not None
    assert cell.ours.value == pytest.approx(PRINTED["IMPALA"]["LSTM", "T1", 1.0].mean, abs=1e-3)


def test_the_papers_impala_is_one_agent_for_all_levels_in_a_population_of_twelve() -> None:
    [task] = tasks("IMPALA", "paper")
    assert len(task.games) == len(SCENARIOS)
    assert task.population == 12


def test_what_is_not_done_is_not_judged() -> None:
    only_originals: Values = lambda trial: None if "part" in trial.parameters else papers(trial)  # noqa: E731
    assert {claim.holds for claim in report(LAYERS, only_originals).claims if "lower" in claim.says} == {None}
    assert {claim.holds for claim in report(EXPERIENCE, only_originals).claims if "experience" in claim.says} == {None}
    assert verdict(report(AGENTS, only_originals), "RL models are harder") is None


def test_all_six_findings_are_in_one_report() -> None:
    found = report(COMPLETION, papers)
    assert {claim.says[:2] for claim in found.claims if claim.says[0].isdigit()} == {f"{n}." for n in range(1, 7)}
    assert len({(cell.row, cell.column) for cell in found.cells}) == len(found.cells)


def test_every_network_and_agent_has_a_page_and_the_numbers_come_back(tmp_path: Path) -> None:
    found = report(COMPLETION, papers)
    pages = found.pages(tmp_path)
    assert [page.name for page in pages] == ["alexnet.html", "resnet.html", "a2c.html", "rainbow.html"]
    assert "Conv 1" in pages[2].read_text()
    again = CompletionTable.from_json(found.to_json())
    cell = again.hardness["A2C"].cell("Conv 1", "T1", 1.0)
    assert cell.statistics[1] == "0.94"
    assert cell.runs == 3


def test_the_fastest_procedure_for_agents_is_named() -> None:
    [claim] = [claim for claim in report(OTHER_PROCEDURES, papers).claims if claim.says.startswith("1.")]
    assert "Conv 1 T2, T2, T2" in claim.found, "table C.3"


@pytest.mark.parametrize("agent", AGENT_NAMES)
@pytest.mark.parametrize("size", ["small", "medium", "paper"])
def test_games_and_parts_exist(agent: AgentName, size: Size) -> None:
    wanted = tasks(agent, size)
    known = [*(f"atari/{game}" for game in games()), *(f"doom/{scenario}" for scenario in SCENARIOS)]
    assert {game for task in wanted if not task.small for game in task.games} <= set(known)
    for task in [task for task in wanted if task.small][:1]:
        _require_parts(task, LAYERS.trials(size, 0))


def _require_parts(task: Task, trials: Any) -> None:
    network = new_network(task, 0)
    for trial in trials:
        if trial.parameters["task"] == task.to_json() and "part" in trial.parameters:
            assert Part.from_json(trial.parameters["part"]).count(network) > 0


@pytest.mark.parametrize("study", [LAYERS, EXPERIENCE, OTHER_PROCEDURES], ids=lambda study: study.declared.name)
def test_a_report_is_made_whichever_trials_are_missing(study: PaperStudy) -> None:
    """One kind of trial after the other has failed: what hangs on it is missing, and nothing stands in its place."""
    kinds = {_kind(trial) for trial in study.trials("small", 0)}
    for kind in sorted(kinds):
        found = report(study, lambda trial, kind=kind: None if _kind(trial) == kind else papers(trial))  # type: ignore[misc]
        assert found.claims
        assert str(found)


def _kind(trial: Trial) -> str:
    given = trial.parameters
    who = given["setting"]["network"] if "setting" in given else given["task"]["agent"]
    return f"{who} {given.get('part', {}).get('name')} {given.get('procedure')} {given.get('keep_replay')}"
