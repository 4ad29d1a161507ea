"""Completing agents: what is reset, what is frozen, what is kept, on games of a few hundred steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from modelkeep.completion.agents import complete, loss_curves, reset_network
from modelkeep.completion.part import Part
from modelkeep.core.errors import CheckpointError, InputError
from modelkeep.rl import tasks
from modelkeep.rl.a2c import A2C
from modelkeep.rl.agent import Agent
from modelkeep.rl.environments.minatar import MinAtar
from modelkeep.rl.impala.population import Population
from modelkeep.rl.learning import Learned
from modelkeep.rl.rainbow.agent import Rainbow
from modelkeep.rl.tasks import AgentName, Task, train
from modelkeep.training.part import tensors_of

CONV = Part("Conv 1", ("conv1",))


@pytest.fixture(autouse=True)
def few_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "JUDGES", 4)


def task(agent: AgentName, steps: int = 320) -> Task:
    copies = {"A2C": 8, "Rainbow": 4, "IMPALA": 4}[agent]
    return Task(agent=agent, game="minatar/breakout", copies=copies, steps=steps, evaluate_every=160, episodes=4)


def trained(agent: AgentName = "A2C") -> tuple[Agent, Learned]:
    return train(task(agent), seed=0)


def same(one: torch.nn.Module, other: torch.nn.Module, names: list[str]) -> bool:
    return all(torch.equal(tensors_of(one)[name], tensors_of(other)[name]) for name in names)


@pytest.mark.parametrize("procedure", ["T1", "T2", "T4 msra"])
def test_only_the_part_is_drawn_anew(procedure: str) -> None:
    agent, _ = trained()
    network = reset_network(agent.network, CONV, procedure, seed=5)
    names = list(tensors_of(network))
    assert same(network, agent.network, [name for name in names if not name.startswith("conv1")])
    assert not torch.equal(tensors_of(network)["conv1.weight"], tensors_of(agent.network)["conv1.weight"])
    learns = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert learns == ({"conv1.weight", "conv1.bias"} if procedure == "T2" else set(names))


def test_t3_puts_two_layers_in_the_place_of_one() -> None:
    agent, _ = trained()
    network = reset_network(agent.network, CONV, "T3", seed=5)
    assert len(list(network.get_submodule("conv1").children())) == 2
    assert complete(task("A2C"), agent, CONV, "T3", seed=1).last.step == 320


def test_under_t2_nothing_else_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, _ = trained()
    made: list[A2C] = []

    class Noted(A2C):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(tasks, "A2C", Noted)
    complete(task("A2C"), agent, CONV, "T2", seed=1)
    after = made[0].network
    assert same(after, agent.network, [name for name in tensors_of(after) if not name.startswith("conv1")])
    assert not torch.equal(
        tensors_of(after)["conv1.weight"], tensors_of(reset_network(agent.network, CONV, "T2", 1))["conv1.weight"]
    )


def test_the_loss_is_the_negative_return_on_the_grid() -> None:
    _, learned = trained()
    found = loss_curves(learned)["minatar/breakout"]
    assert found.steps == (0, 160, 320)
    assert found.losses == tuple(-judged.levels["minatar/breakout"].value for judged in learned.evaluations)


def test_what_is_missing_has_no_influence() -> None:
    agent, _ = trained()
    before = complete(task("A2C"), agent, CONV, "T1", seed=1)
    with torch.no_grad():
        agent.network.get_parameter("conv1.weight").fill_(3.0)
    after = complete(task("A2C"), agent, CONV, "T1", seed=1)
    assert before.evaluations == after.evaluations


def test_a_retraining_that_was_killed_goes_on_to_the_same_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, _ = trained()
    whole = complete(task("A2C"), agent, CONV, "T1", seed=1)
    advance, left = A2C.advance, 4

    def killed(self: A2C) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return advance(self)

    monkeypatch.setattr("modelkeep.rl.learning.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(A2C, "advance", killed)
    with pytest.raises(KeyboardInterrupt):
        complete(task("A2C"), agent, CONV, "T1", seed=1, checkpoint=tmp_path / "run")
    monkeypatch.setattr(A2C, "advance", advance)
    assert (tmp_path / "run").exists()
    again = complete(task("A2C"), agent, CONV, "T1", seed=1, checkpoint=tmp_path / "run")
    assert again.evaluations == whole.evaluations


def test_a_checkpoint_of_another_procedure_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    """T1 and T2 begin with the same weights and settings: only what is trained differs."""
    agent, _ = trained()
    complete(task("A2C"), agent, CONV, "T1", seed=1, checkpoint=tmp_path / "run")
    with pytest.raises(CheckpointError, match="another run: trained was"):
        complete(task("A2C"), agent, CONV, "T2", seed=1, checkpoint=tmp_path / "run")


def test_all_games_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(MinAtar, "close", lambda self: closed.append(self.name))
    trained()
    assert len(closed) == 3, "the one that told the network's shape, the agent's and the judge's"


def test_a_kept_replay_is_the_trained_agents_and_a_reset_one_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, _ = trained("Rainbow")
    assert isinstance(agent, Rainbow)
    begun: list[int] = []
    advance = Rainbow.advance

    def noted(self: Rainbow) -> int:
        begun.append(len(self.replay))
        return advance(self)

    monkeypatch.setattr(Rainbow, "advance", noted)
    for keep in (True, False):
        complete(task("Rainbow", 80), agent, CONV, "T1", seed=1, keep_replay=keep)
    assert begun[0] == len(agent.replay) > 0
    assert begun[len(begun) // 2] == 0


def test_impala_is_completed_too() -> None:
    agent, _ = trained("IMPALA")
    learned = complete(task("IMPALA"), agent, Part("LSTM", ("lstm",)), "T2", seed=1)
    assert learned.last.step == 320


def test_a_population_that_learns_two_games_jointly_is_completed_at_each(tmp_path: Path) -> None:
    both = replace(task("IMPALA", 640), game="minatar/breakout+minatar/asterix", population=2, evaluate_every=320)
    agent, first = train(both, seed=0)
    assert isinstance(agent, Population)
    assert [sum(copies.count for copies in member.actors.environments) for member in agent.members] == [8, 8]
    lstm = Part("LSTM", ("lstm",))
    again = complete(both, agent, lstm, "T1", seed=1, checkpoint=tmp_path / "run")
    for learned in (first, again):
        found = loss_curves(learned)
        assert list(found) == ["minatar/breakout", "minatar/asterix"]
        assert all(curve.steps == (0, 320, 640) for curve in found.values())
    assert complete(both, agent, lstm, "T1", seed=1, checkpoint=tmp_path / "run").evaluations == again.evaluations


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"agent": "A2C", "game": "minatar/breakout+minatar/asterix"}, "Only IMPALA learns several games"),
        ({"agent": "Rainbow", "population": 3}, "Only IMPALA .* a population of 3"),
        ({"game": "minatar/breakout+minatar/breakout"}, "must be named once"),
    ],
)
def test_a_task_that_no_agent_can_do_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        replace(task("IMPALA"), **wrong)


def test_what_cannot_be_is_refused() -> None:
    agent, _ = trained()
    with pytest.raises(InputError, match="one of T1, T2, T3, T4 glorot uniform"):
        complete(task("A2C"), agent, CONV, "T9", seed=0)
    with pytest.raises(InputError, match="Only Rainbow has a replay buffer"):
        complete(task("A2C"), agent, CONV, "T1", seed=0, keep_replay=True)
    with pytest.raises(InputError, match="whole parameters"):
        complete(task("A2C"), agent, Part("half", ("conv1",), share=0.5), "T2", seed=0)
