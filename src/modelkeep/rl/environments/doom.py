"""Doom: ViZDoom's scenarios, first-person and in 3-D, in the place of DeepMind Lab; many copies at a time."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import MissingExtra
from modelkeep.rl.environments.episodes import Episodes
from modelkeep.rl.environments.screens import ScreenShrinker
from modelkeep.rl.environments.vector import State, StepResult

SCENARIOS = (
    "basic",
    "deadly_corridor",
    "defend_the_center",
    "defend_the_line",
    "health_gathering",
    "health_gathering_supreme",
    "my_way_home",
    "predict_position",
    "take_cover",
)
SKIP = 4  # tics that an action holds for
MOST_STEPS = 5_000  # of an episode, where the scenario has no limit of its own (K of Martic2018, section 3)


class Doom:
    """`count` copies of a scenario of ViZDoom: colours of 72 × 96 pixels are seen, an action holds for four tics.

    An action is nothing, or one of the scenario's buttons, as in gymnasium's `Vizdoom…-v1`; rewards are the
    scenario's. Each copy is a process without window and sound, which must be closed.

    What Doom saves is not all that decides how it goes on. So a state is the seed and the actions of each copy's
    episode, and restoring it plays them again.
    """

    def __init__(self, scenario: str, count: int) -> None:
        try:
            import vizdoom
        except ImportError as missing:
            raise MissingExtra("rl", "vizdoom", "Playing Doom") from missing
        self.name, self.count = f"doom/{scenario}", count
        self._folder = tempfile.TemporaryDirectory(prefix="modelkeep-doom-")
        self._engines = [_engine(vizdoom, scenario, Path(self._folder.name)) for _ in range(count)]
        buttons = self._engines[0].get_available_buttons()
        self.action_names = ("nothing", *(button.name.lower() for button in buttons))
        self.actions = len(self.action_names)
        self._buttons = np.eye(self.actions)[:, 1:].tolist()
        self.observation_shape: tuple[int, ...] = (3, 72, 96)
        self._shrink = ScreenShrinker((120, 160), (72, 96))
        self.reset(0)

    def reset(self, seed: int) -> NDArray[np.uint8]:
        """Begin anew, all copies, each with randomness of its own that the seed decides."""
        self._episodes = Episodes(seed, self.count)
        self._taken = [bytearray() for _ in range(self.count)]
        for copy in range(self.count):
            self._begin(copy)
        return self._observe()

    def _begin(self, copy: int) -> None:
        self._engines[copy].set_seed(self._episodes.seed(copy))
        self._engines[copy].new_episode()

    def _observe(self) -> NDArray[np.uint8]:
        return self._shrink(np.stack([engine.get_state().screen_buffer for engine in self._engines]))

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        """One step of all copies: four tics."""
        rewards = np.zeros(self.count, np.float32)
        for copy, action in enumerate(actions.tolist()):
            rewards[copy] = self._engines[copy].make_action(self._buttons[action], SKIP)
            self._taken[copy].append(action)
        self._episodes.add(rewards)
        ended = np.array([engine.is_episode_finished() for engine in self._engines])
        returns = []
        for copy in np.flatnonzero(ended).tolist():
            returns.append(self._episodes.over(copy))
            self._taken[copy] = bytearray()
            self._begin(copy)
        return StepResult(self._observe(), rewards, ended, tuple(returns))

    def state(self) -> State:
        """Everything that decides what comes next."""
        tensors = {
            f"actions.{copy}": torch.from_numpy(np.frombuffer(bytes(taken), np.uint8).copy())
            for copy, taken in enumerate(self._taken)
        }
        return tensors, self._episodes.to_json()

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        tensors, values = state
        self._episodes = Episodes.from_json(values)
        self._taken = [bytearray(tensors[f"actions.{copy}"].numpy()) for copy in range(self.count)]
        for copy, engine in enumerate(self._engines):
            self._begin(copy)
            for action in self._taken[copy]:
                engine.make_action(self._buttons[action], SKIP)

    def close(self) -> None:
        """End the processes."""
        for engine in self._engines:
            engine.close()
        self._folder.cleanup()


def _engine(vizdoom: Any, scenario: str, folder: Path) -> Any:
    engine = vizdoom.DoomGame()
    engine.load_config(str(Path(vizdoom.scenarios_path) / f"{scenario}.cfg"))
    engine.set_doom_config_path(str(folder / "vizdoom.ini"))
    engine.set_window_visible(False)
    engine.set_sound_enabled(False)
    engine.set_screen_format(vizdoom.ScreenFormat.CRCGCB)  # colours first
    engine.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)  # its smallest
    engine.set_episode_timeout(engine.get_episode_timeout() or MOST_STEPS * SKIP)
    with contextlib.chdir(folder):  # the process leaves a folder where it is started, and no option says another
        engine.init()
    return engine
