"""Play whole episodes and say what they returned: how an agent, or chance, is judged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.rl.agent import Player
from modelkeep.rl.environments.vector import Environments


def play_episodes(player: Player, environments: Environments, episodes: int, seed: int) -> tuple[float, ...]:
    """The returns of exactly `episodes` episodes, played from a reset under `seed`.

    The number of episodes of each copy is fixed beforehand. The first episodes to end among all copies would be the
    short ones, and an agent that dies early would look as bad as its early deaths, not as good as it is.

    >>> from modelkeep.rl.environments.catalogue import make
    >>> games = make("minatar/breakout", 4)
    >>> len(play_episodes(random_player(games.actions, seed=0), games, episodes=10, seed=0))
    10
    """
    if episodes < 1:
        raise bad_parameter("returns", "episodes", "an integer above 0", episodes)
    count = environments.count
    left = [episodes // count + (copy < episodes % count) for copy in range(count)]
    observations = environments.reset(seed)
    begun = np.ones(count, np.bool_)
    got: list[float] = []
    while any(left):
        stepped = environments.step(player(observations, begun))
        observations, begun = stepped.observations, stepped.ended
        over = np.flatnonzero(begun)
        if len(over) != len(stepped.returns):
            raise InputError(
                f"{environments.name} tells of an end at each lost life, and an evaluation plays whole episodes. "
                "Make the environments for it with life_ends=False."
            )
        for copy, value in zip(over, stepped.returns, strict=True):
            if left[copy]:
                left[copy] -= 1
                got.append(value)
    return tuple(got)


def random_player(actions: int, seed: int) -> Player:
    """Every action with the same chance: what an agent must be better than."""
    random = np.random.default_rng(seed)

    def play(observations: NDArray[np.uint8], begun: NDArray[np.bool_]) -> NDArray[np.int64]:
        return random.integers(0, actions, len(observations))

    return play
