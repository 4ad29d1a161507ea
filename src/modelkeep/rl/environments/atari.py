"""Atari: the Arcade Learning Environment with DeepMind's preprocessing, many copies at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import MissingExtra
from modelkeep.rl.environments.episodes import Episodes
from modelkeep.rl.environments.screens import ScreenShrinker
from modelkeep.rl.environments.vector import State, StepResult

if TYPE_CHECKING:
    from ale_py import ALEInterface

SKIP = 4  # frames that an action holds for
_STACK = 4  # screens that are seen
_NO_OPS = 30  # an episode begins with 1 to this many frames without an action
_MOST_FRAMES = 108_000  # half an hour; then an episode has ended


class Atari:
    """`count` copies of an Atari game, seen and played as by A3C and Rainbow.

    Four grey screens of 84 × 84 are seen; an action holds for four frames, of which the brighter pixels of the last two
    are shown; an episode begins with up to 30 frames without an action and ends with the game. No action sticks, the
    actions are the game's minimal set, rewards are not clipped. With `life_ends` a lost life is an end for the learner,
    but the game goes on.

    The copies are `ALEInterface`s, one after the other: the ALE's own vector of threads emulates twice as fast on two
    cores, but cannot be saved, and to seed an episode it loads the game again, which takes as long as 280 steps.
    """

    def __init__(self, game: str, count: int, *, life_ends: bool) -> None:
        self.name, self.count = f"atari/{game}", count
        self._life_ends = life_ends
        rom = games()[game]
        self._consoles = [_console(rom) for _ in range(count)]
        self._first = self._consoles[0].cloneState(include_rng=True)  # just switched on: where all episodes begin
        self._actions = self._consoles[0].getMinimalActionSet()
        self.actions = len(self._actions)
        self.action_names = tuple(action.name.lower() for action in self._actions)
        height, width = self._consoles[0].getScreenDims()
        self._shrink = ScreenShrinker((height, width), (84, 84))
        self._screens = np.zeros((2, count, height, width), np.uint8)  # the last two frames
        self.observation_shape: tuple[int, ...] = (_STACK, 84, 84)
        self.reset(0)

    def reset(self, seed: int) -> NDArray[np.uint8]:
        """Begin anew, all copies, each with randomness of its own that the seed decides."""
        self._episodes = Episodes(seed, self.count)
        self._lives = np.zeros(self.count, np.int64)
        for copy in range(self.count):
            self._begin(copy)
        self._seen = np.repeat(self._shrink(self._screens.max(axis=0))[:, None], _STACK, axis=1)
        return self._seen

    def _begin(self, copy: int) -> None:
        """Begin the copy's episode, up to its first screen."""
        console = self._consoles[copy]
        console.restoreState(self._first)
        for _ in range(1 + self._episodes.seed(copy) % _NO_OPS):
            console.act(0)
        self._lives[copy] = console.lives()
        for screens in self._screens:
            console.getScreenGrayscale(screens[copy])

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        """One step of all copies: four frames."""
        rewards = np.zeros(self.count, np.float32)
        for copy, action in enumerate(actions.tolist()):
            rewards[copy] = self._hold(copy, action)
        self._episodes.add(rewards)
        over = np.array([console.game_over() for console in self._consoles])
        lives = np.array([console.lives() for console in self._consoles])
        ended = over | (lives < self._lives) if self._life_ends else over
        self._lives = lives
        ends = np.flatnonzero(over).tolist()
        returns = tuple(self._episodes.over(copy) for copy in ends)
        for copy in ends:
            self._begin(copy)
        shown = self._shrink(self._screens.max(axis=0))
        self._seen = np.concatenate([self._seen[:, 1:], shown[:, None]], axis=1)
        self._seen[ends] = shown[ends, None]
        return StepResult(self._seen, rewards, ended, returns)

    def _hold(self, copy: int, action: int) -> float:
        """Hold an action for four frames, or until the game is over; the sum of the rewards."""
        console, chosen, earned = self._consoles[copy], self._actions[action], 0
        for frame in range(SKIP):
            earned += console.act(chosen)
            if frame >= SKIP - 2:
                console.getScreenGrayscale(self._screens[frame - SKIP + 2, copy])
            if console.game_over():
                break
        return earned

    def state(self) -> State:
        """Everything that decides what comes next."""
        tensors = {"seen": torch.from_numpy(self._seen.copy())}
        for copy, console in enumerate(self._consoles):
            kept = console.cloneState(include_rng=True).serialize()
            tensors[f"console.{copy}"] = torch.from_numpy(np.frombuffer(kept, np.uint8).copy())
        return tensors, self._episodes.to_json()

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        from ale_py import ALEState

        tensors, values = state
        self._episodes = Episodes.from_json(values)
        self._seen = tensors["seen"].numpy().copy()
        for copy, console in enumerate(self._consoles):
            console.restoreState(ALEState(tensors[f"console.{copy}"].numpy().tobytes()))
        self._lives = np.array([console.lives() for console in self._consoles])

    def close(self) -> None:
        """Nothing to give back."""


def games() -> dict[str, Path]:
    """The ALE's games by the names that gymnasium gives them, such as "MsPacman", and their files."""
    try:
        from ale_py.registration import rom_id_to_name
        from ale_py.roms import get_all_rom_ids, get_rom_path
    except ImportError as missing:
        raise MissingExtra("rl", "ale-py", "Playing Atari games") from missing
    return {rom_id_to_name(rom): path for rom in sorted(get_all_rom_ids()) if (path := get_rom_path(rom))}


def _console(rom: Path) -> ALEInterface:
    from ale_py import ALEInterface, LoggerMode

    ALEInterface.setLoggerMode(LoggerMode.Error)  # it greets on standard error else
    console = ALEInterface()
    console.setInt("random_seed", 0)
    console.setInt("max_num_frames_per_episode", _MOST_FRAMES)
    console.setFloat("repeat_action_probability", 0.0)
    console.loadROM(rom)
    console.reset_game()
    return console
