"""Population-based training of members whose scores are a known function of what evolves, and of real agents."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from modelkeep.core.errors import CheckpointError, InputError
from modelkeep.rl.agent import Agent, Player
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.environments.vector import State
from modelkeep.rl.impala.agent import Impala
from modelkeep.rl.impala.network import ImpalaNetwork
from modelkeep.rl.impala.population import Population, PopulationSettings, Range
from modelkeep.rl.impala.settings import ImpalaSettings
from modelkeep.rl.learning import Learned, learn

OPTIMUM = 0.03


class Toy:
    """Learns each time as much as its rate is near the optimum: what it has learned is its score."""

    def __init__(self, values: Mapping[str, float], seed: int) -> None:
        self.network = nn.Linear(1, 1, bias=False)
        self.network.weight.data.fill_(0.0)
        self.settings = ImpalaSettings(learning_rate=values["learning_rate"])
        self.children = 0

    @property
    def skill(self) -> float:
        return self.network.weight.item()

    def advance(self) -> int:
        self.network.weight.data += math.exp(-abs(math.log(self.settings.learning_rate / OPTIMUM)))
        return 5

    def scores(self) -> tuple[float, ...] | None:
        return (self.skill,)

    def inherit(self, parent: Toy, values: Mapping[str, float]) -> None:
        self.network.load_state_dict(parent.network.state_dict())
        self.settings = ImpalaSettings().with_values(values)
        self.children += 1

    def player(self, seed: int) -> Player:
        def play(observations: NDArray[np.uint8], begun: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.full(len(observations), round(1000 * self.skill))

        return play

    def state(self) -> State:
        return {"weight": self.network.weight.detach().clone()}, {"rate": self.settings.learning_rate}

    def restore(self, state: State) -> None:
        self.network.weight.data.copy_(state[0]["weight"])
        self.settings = ImpalaSettings(learning_rate=state[1]["rate"])

    def metrics(self) -> dict[str, float]:
        return {"skill": self.skill}


TOYS = PopulationSettings(size=10, interval=2, ranges={"learning_rate": Range(1e-5, 1.0)})


def test_the_population_moves_to_the_optimum() -> None:
    population = Population(Toy, TOYS, seed=0)
    first = [abs(math.log(values["learning_rate"] / OPTIMUM)) for values in population.values]
    alone = max(float(np.exp(-error)) for error in first) * 200  # the luckiest member, had nothing evolved
    for _ in range(200):
        assert population.advance() == 50
    last = [abs(math.log(values["learning_rate"] / OPTIMUM)) for values in population.values]
    assert np.median(first) > 1.5
    assert np.median(last) < 2 * math.log(1.2)
    skills = [member.skill for member in population.members]
    assert min(skills) > alone
    assert population.network is population.members[int(np.argmax(skills))].network
    assert population.player(0)(np.zeros((1, 1), np.uint8), np.ones(1, bool))[0] == round(1000 * max(skills))
    assert [member.settings.learning_rate for member in population.members] == [
        values["learning_rate"] for values in population.values
    ]


def test_a_fifth_is_replaced_and_every_value_moves_by_the_factor() -> None:
    population = Population(Toy, replace(TOYS, interval=1), seed=1)
    before = [values["learning_rate"] for values in population.values]
    population.advance()
    gains = [math.exp(-abs(math.log(rate / OPTIMUM))) for rate in before]
    ranked = sorted(range(10), key=lambda i: gains[i])
    assert [i for i in range(10) if population.members[i].children] == sorted(ranked[:2])
    for i in ranked[:2]:
        ratios = [population.values[i]["learning_rate"] / before[parent] for parent in ranked[-2:]]
        assert any(ratio == pytest.approx(1.2) or ratio == pytest.approx(1 / 1.2) for ratio in ratios)


def test_levels_of_all_scales_count_alike() -> None:
    """The one who is best at two small levels of three is copied, and who is best at the large one is not."""
    told = {0: (1.0, 1.0, 900.0), 1: (2.0, 2.0, 100.0), 2: (3.0, 3.0, 500.0)}

    class Told(Toy):
        def scores(self) -> tuple[float, ...] | None:
            return told.get(population.members.index(self))

    population = Population(Told, replace(TOYS, size=4, interval=1), seed=0)
    population.advance()
    assert population.best == 2
    assert [member.children for member in population.members] == [0, 1, 0, 0], "nothing is known of the last one"


def test_the_values_at_the_start_are_log_uniform() -> None:
    population = Population(Toy, replace(TOYS, size=400), seed=0)
    logs = [math.log10(values["learning_rate"]) for values in population.values]
    assert -5 <= min(logs) < -4.9
    assert -0.1 < max(logs) <= 0
    assert np.mean(logs) == pytest.approx(-2.5, abs=3 * 5 / math.sqrt(12 * 400))


@pytest.mark.parametrize("wrong", [{"size": 1}, {"interval": 0}, {"truncation": 0.6}, {"factor": 1.0}])
def test_settings_out_of_range(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"'{next(iter(wrong))}' parameter of PopulationSettings"):
        replace(PopulationSettings(), **wrong)  # type: ignore[arg-type]


def test_a_range_is_of_positive_numbers() -> None:
    for low, high in ((0.0, 1.0), (2.0, 1.0)):
        with pytest.raises(InputError, match="'low' parameter of Range"):
            Range(low, high)


def agents(seed: int, settings: ImpalaSettings = ImpalaSettings(unroll=5)) -> Population[Impala]:  # noqa: B008  (frozen)
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        network = ImpalaNetwork((4, 10, 10), 3, channels=(4,), blocks=1, linear=16, lstm=16, scale=1.0)

    def member(values: dict[str, float], seed: int) -> Impala:
        return Impala([make("minatar/breakout", 4)], copy.deepcopy(network), settings.with_values(values), seed)

    return Population(member, PopulationSettings(size=3, interval=2), seed)


def test_a_resumed_population_of_agents_ends_with_the_same_bits() -> None:
    whole, half, resumed = agents(0), agents(0), agents(0)
    for _ in range(8):
        assert whole.advance() == 3 * 4 * 5
    for _ in range(4):
        half.advance()
    tensors, values = half.state()
    resumed.restore((tensors, json.loads(json.dumps(values))))
    for _ in range(4):
        resumed.advance()
    expected, found = whole.state(), resumed.state()
    assert found[1] == expected[1]
    assert found[0].keys() == expected[0].keys()
    assert all(torch.equal(tensor, found[0][name]) for name, tensor in expected[0].items())
    assert len({json.dumps(values) for values in whole.values}) == 3
    settings = [(m.settings.learning_rate, m.settings.entropy_cost, m.settings.epsilon) for m in resumed.members]
    assert settings == [(v["learning_rate"], v["entropy_cost"], v["epsilon"]) for v in whole.values]
    agent: Agent = resumed
    assert agent.metrics()["learning_rate"] == whole.values[whole.best]["learning_rate"]


def test_a_population_learns_in_the_loop_of_all_agents_and_resumes(tmp_path: Path) -> None:
    def run(population: Population[Impala]) -> Learned:
        judge = make("minatar/breakout", 2)
        path = tmp_path / "run.safetensors"
        return learn(population, judge, steps=240, evaluate_every=120, episodes=2, seed=3, checkpoint=path)

    first = agents(0)
    learned = run(first)
    again = agents(0)
    assert run(again).evaluations == learned.evaluations
    assert len(learned.evaluations) == 3
    assert all(torch.equal(tensor, again.state()[0][name]) for name, tensor in first.state()[0].items())


def test_the_checkpoint_of_members_with_other_settings_is_refused(tmp_path: Path) -> None:
    def run(population: Population[Impala]) -> Learned:
        path = tmp_path / "run.safetensors"
        judge = make("minatar/breakout", 2)
        return learn(population, judge, steps=120, evaluate_every=60, episodes=2, seed=3, checkpoint=path)

    run(agents(0))
    with pytest.raises(CheckpointError, match="another run: begins was"):
        run(agents(0, ImpalaSettings(unroll=5, discount=0.9)))


def test_a_member_inherits_weights_and_optimizer_but_plays_on_where_it_was() -> None:
    population = agents(1)
    child, parent = population.members[:2]
    for _ in range(3):
        population.members[0].advance()
        population.members[1].advance()
    seen = child.actors.observations.clone()
    child.inherit(parent, {"entropy_cost": 0.5})
    assert torch.equal(child.actors.observations, seen)
    assert child.settings == replace(child.settings, entropy_cost=0.5)
    assert child.scores() is None
    inherited, own = child.state()[0], parent.state()[0]
    for name in own:
        if name.startswith(("network/", "optimizer/")):
            assert torch.equal(inherited[name], own[name])
    child.advance()  # and what the child learns, the parent does not
    assert all(torch.equal(tensor, own[name]) for name, tensor in parent.state()[0].items())
