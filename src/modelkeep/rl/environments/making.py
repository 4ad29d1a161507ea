"""Make environments by name: "minatar/breakout", "atari/Pong", "doom/basic"."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from modelkeep.errors import InputError, bad_parameter, listed
from modelkeep.rl.environments import minatar
from modelkeep.rl.environments.vector import Environments

FAMILIES = ("minatar",)


def make(name: str, count: int) -> Environments:
    """`count` copies of a game, stepped together.

    >>> games = make("minatar/breakout", 16)
    >>> games.observation_shape, games.actions
    ((4, 10, 10), 3)
    >>> games.reset(seed=0).shape
    (16, 4, 10, 10)
    """
    if count < 1:
        raise bad_parameter("make", "count", "an integer above 0", count)
    family, _, game = name.partition("/")
    if family not in FAMILIES:
        raise _unknown(name, FAMILIES, "family of environments", family)
    if game not in minatar.GAMES:
        raise _unknown(name, minatar.GAMES, f"game of {family}", game)
    return minatar.MinAtar(game, count)


def _unknown(name: str, allowed: Sequence[str], what: str, got: str) -> InputError:
    near = difflib.get_close_matches(got, allowed, n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return InputError(f"{name!r} is no environment: there is no {what} '{got}'.{hint} There are: {listed(allowed)}.")
