"""Agents whose networks are on another device: nothing is left behind, and they learn the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elsewhere import CUDA, Elsewhere
from modelkeep.rl import a2c
from modelkeep.rl.a2c import A2C
from modelkeep.rl.agent import Agent
from modelkeep.rl.environments.catalogue import make
from modelkeep.rl.impala import settings as impala
from modelkeep.rl.impala.agent import Impala
from modelkeep.rl.impala.network import minatar_network
from modelkeep.rl.learning import Learned, learn
from modelkeep.rl.networks import minatar_actor_critic
from modelkeep.rl.rainbow import MINATAR as RAINBOW
from modelkeep.rl.rainbow.agent import Rainbow
from modelkeep.rl.rainbow.network import minatar_rainbow


def actor_critic(device: torch.device) -> Agent:
    return A2C(make("minatar/breakout", 4), minatar_actor_critic(4, 3).to(device), a2c.MINATAR, seed=0)


def rainbow(device: torch.device) -> Agent:
    settings = replace(RAINBOW, learning_starts=32, target_every=40)
    return Rainbow(make("minatar/breakout", 4), minatar_rainbow(4, 3).to(device), settings, seed=0)


def actors(device: torch.device) -> Agent:
    return Impala([make("minatar/breakout", 4)], minatar_network((4, 10, 10), 3).to(device), impala.MINATAR, seed=0)


def lived(made: Callable[[torch.device], Agent], device: torch.device) -> tuple[dict[str, torch.Tensor], list[int]]:
    """An agent that learns for a while, is kept, goes on as another, and plays."""
    torch.manual_seed(0)
    first = made(device)
    for _ in range(12):
        first.advance()
    tensors, values = first.state()
    torch.manual_seed(0)
    second = made(device)
    second.restore(({name: tensor.cpu() for name, tensor in tensors.items()}, json.loads(json.dumps(values))))
    for _ in range(4):
        second.advance()
    played = second.player(0)(np.ones((3, 4, 10, 10), np.uint8), np.ones(3, np.bool_)).tolist()
    return {name: tensor.cpu() for name, tensor in second.state()[0].items()}, played


@pytest.mark.parametrize("made", [actor_critic, rainbow, actors])
def test_an_agent_learns_the_same_elsewhere(made: Callable[[torch.device], Agent]) -> None:
    with torch.random.fork_rng(devices=[]):
        here, played = lived(made, torch.device("cpu"))
        with Elsewhere():
            there, played_there = lived(made, CUDA)
    assert played_there == played
    assert there.keys() == here.keys()
    assert all(torch.equal(tensor, there[name]) for name, tensor in here.items())


@pytest.mark.parametrize("made", [actor_critic, rainbow, actors])
def test_a_run_elsewhere_is_kept_and_goes_on(
    made: Callable[[torch.device], Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelkeep.rl.learning.CHECKPOINT_SECONDS", 0.0)

    def run(device: torch.device, path: Path) -> Learned:
        torch.manual_seed(0)
        judge = make("minatar/breakout", 2)
        return learn(made(device), judge, steps=200, evaluate_every=100, episodes=2, seed=0, checkpoint=path)

    with torch.random.fork_rng(devices=[]):
        here = run(torch.device("cpu"), tmp_path / "here")
        with Elsewhere():
            there, again = run(CUDA, tmp_path / "there"), run(CUDA, tmp_path / "there")
    assert there.evaluations == again.evaluations == here.evaluations


def test_what_is_forgotten_is_found() -> None:
    with Elsewhere() as place:
        x = torch.ones(3).to("cuda")
        assert x.device == CUDA
        assert place.has(2 * x)
        assert not place.has(x.cpu())
        for mistake in (lambda: x + torch.ones(3), x.numpy, lambda: x.exponential_(generator=torch.Generator())):
            with pytest.raises((RuntimeError, TypeError)):
                mistake()
