"""Levels: different games that one agent learns jointly, made alike in what they show and in what can be done."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import InputError
from modelkeep.rl.environments.vector import Environments, State, StepResult


class Level:
    """A game that shows as many channels as the richest of several, and takes the `action_names` of all of them.

    Channels that it does not have are blank. An action that it does not have is its first one, which does nothing.
    """

    def __init__(self, game: Environments, observation_shape: tuple[int, ...], action_names: tuple[str, ...]) -> None:
        self._game = game
        self.name, self.count = game.name, game.count
        self.observation_shape, self.action_names, self.actions = observation_shape, action_names, len(action_names)
        own = game.action_names
        self._own = np.array([own.index(name) if name in own else 0 for name in action_names])

    def reset(self, seed: int) -> NDArray[np.uint8]:
        """Begin anew, as the game does."""
        return self._widen(self._game.reset(seed))

    def step(self, actions: NDArray[np.int64]) -> StepResult:
        """One step of all copies."""
        stepped = self._game.step(self._own[actions])
        return StepResult(self._widen(stepped.observations), stepped.rewards, stepped.ended, stepped.returns)

    def _widen(self, observations: NDArray[np.uint8]) -> NDArray[np.uint8]:
        shown = np.zeros((self.count, *self.observation_shape), np.uint8)
        shown[:, : observations.shape[1]] = observations
        return shown

    def state(self) -> State:
        """The game's."""
        return self._game.state()

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken, exactly."""
        self._game.restore(state)

    def close(self) -> None:
        """Close the game."""
        self._game.close()


def require_alike(games: Sequence[Environments]) -> tuple[Environments, ...]:
    """The games as levels of one agent; one game alone stays as it is.

    >>> from modelkeep.rl.environments.catalogue import make
    >>> one, other = require_alike([make("minatar/breakout", 2), make("minatar/freeway", 2)])
    >>> one.observation_shape, other.observation_shape, one.action_names
    ((7, 10, 10), (7, 10, 10), ('nothing', 'left', 'right', 'up', 'down'))
    """
    if len(games) < 2:
        return tuple(games)
    sizes = {game.observation_shape[1:] for game in games}
    if len(sizes) > 1:
        seen = ", ".join(f"{game.name} {game.observation_shape}" for game in games)
        raise InputError(
            f"One agent can learn several games jointly where all show pictures of one size. Got {seen}. Take games "
            "of one family, such as minatar/breakout+minatar/asterix."
        )
    shape = (max(game.observation_shape[0] for game in games), *sizes.pop())
    names = tuple(dict.fromkeys(name for game in games for name in game.action_names))
    return tuple(Level(game, shape, names) for game in games)
