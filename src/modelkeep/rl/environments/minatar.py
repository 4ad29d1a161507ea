"""MinAtar: five Atari games on a grid of 10 × 10, many copies at a time; the fast default."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import MissingExtra
from modelkeep.rl.environments.vector import State, StepResult

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
_STICKY = 0.1  # with this chance the last action is taken again, as MinAtar does by default
MOST_STEPS = 5_000  # then an episode has ended (K of Martic2018, section 3)
NAMES = {"n": "nothing", "l": "left", "u": "up", "r": "right", "d": "down", "f": "fire"}
_CELLS = np.arange(10)
_CONSTANT = {"random", "channels", "action_map"}  # attributes of a game that are not part of its state


class MinAtar:
    """`count` copies of a MinAtar game, with sticky actions and rising difficulty, as `minatar.Environment` plays it.

    The actions are the game's minimal set, as in gymnasium's `MinAtar/…-v1`: those without an effect are left out.
    """

    def __init__(self, game: str, count: int) -> None:
        make = _rules(game).Env
        self._games: list[Any] = [make(ramping=True) for _ in range(count)]
        self._actions: list[int] = self._games[0].minimal_action_set()
        self.action_names = tuple(NAMES[self._games[0].action_map[action]] for action in self._actions)
        height, width, channels = self._games[0].state_shape()
        self.name, self.count, self.actions = f"minatar/{game}", count, len(self._actions)
        self.observation_shape: tuple[int, ...] = (channels, height, width)
        self.reset(0)

    def reset(self, seed: int) -> NDArray[np.uint8]:
        """Begin anew, all copies, each with randomness of its own that the seed decides."""
        for game, own in zip(self._games, np.random.SeedSequence(seed).generate_state(self.count), strict=True):
            game.random = np.random.RandomState(own)
            game.reset()
        self._last = [0] * self.count  # as MinAtar does, an action also sticks over the end of an episode
        self._steps = [0] * self.count
        self._returns = [0.0] * self.count
        return self._observe()

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        """One step of all copies."""
        rewards = np.zeros(self.count, np.float32)
        ended = np.zeros(self.count, np.bool_)
        finished = []
        for i, (game, chosen) in enumerate(zip(self._games, actions.tolist(), strict=True)):
            if game.random.rand() >= _STICKY:
                self._last[i] = self._actions[chosen]
            reward, over = game.act(self._last[i])
            if reward:
                rewards[i] = reward
                self._returns[i] += float(reward)
            self._steps[i] += 1
            if over or self._steps[i] == MOST_STEPS:
                ended[i] = True
                finished.append(self._returns[i])
                self._returns[i], self._steps[i] = 0.0, 0
                game.reset()
        return StepResult(self._observe(), rewards, ended, tuple(finished))

    def _observe(self) -> NDArray[np.uint8]:
        """What all copies show: `(count, channels, 10, 10)`, zeros and ones."""
        states = np.array([game.state() for game in self._games])
        return np.ascontiguousarray(states.transpose(0, 3, 1, 2)).view(np.uint8)

    def state(self) -> State:
        """Everything that decides what comes next."""
        tensors: dict[str, torch.Tensor] = {}
        games: list[dict[str, Any]] = []
        positions: list[int] = []
        for i, game in enumerate(self._games):
            games.append({})
            for name, value in vars(game).items():
                if isinstance(value, np.ndarray):
                    tensors[f"{i}.{name}"] = torch.from_numpy(value.copy())
                elif name not in _CONSTANT:
                    games[i][name] = _plain(value)
            # The games draw no normal numbers, of which a RandomState would keep one in hand.
            _, key, position, *_ = game.random.get_state()
            tensors[f"{i}.random"] = torch.from_numpy(key.astype(np.int64))
            positions.append(position)
        values = {"games": games, "positions": positions, "last": list(self._last), "steps": list(self._steps)}
        return tensors, values | {"returns": list(self._returns)}

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        tensors, values = state
        for i, (game, attributes) in enumerate(zip(self._games, values["games"], strict=True)):
            for name, value in attributes.items():
                setattr(game, name, _plain(value))
            key = tensors[f"{i}.random"].numpy().astype(np.uint32)
            game.random.set_state(("MT19937", key, values["positions"][i]))
        for name, tensor in tensors.items():
            copy, attribute = name.split(".")
            if attribute != "random":
                setattr(self._games[int(copy)], attribute, tensor.numpy().copy())
        self._last, self._steps, self._returns = list(values["last"]), list(values["steps"]), list(values["returns"])

    def close(self) -> None:
        """Nothing to give back."""


def _rules(game: str) -> ModuleType:
    """The module of a game, run without MinAtar's own `__init__`, which would import pyplot and seaborn: a second."""
    package = importlib.util.find_spec("minatar")
    if package is None or package.origin is None:
        raise MissingExtra("rl", "minatar", "Playing MinAtar")
    path = Path(package.origin).parent / "environments" / f"{game}.py"
    spec = importlib.util.spec_from_file_location(f"minatar_{game}", path)
    if spec is None or spec.loader is None:
        raise MissingExtra("rl", "minatar", f"Playing MinAtar's {game}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["np"] = _Numpy()  # the module is ours alone, so no other code sees this
    return module


class _Numpy:
    """numpy, but with a quick roll of a grid of 10 × 10: numpy's own was half of the time of Space Invaders."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def roll(self, grid: NDArray[Any], shift: int, axis: int) -> NDArray[Any]:
        return grid.take(_CELLS - shift, axis, mode="wrap")


def _plain(value: Any) -> Any:
    """A copy of an attribute in JSON's types: lists of lists, and numpy's numbers as Python's."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
