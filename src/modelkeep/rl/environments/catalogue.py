"""Make environments by name: "minatar/breakout", "atari/Pong", "doom/basic", or several levels joined by "+"."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from modelkeep.core.errors import InputError, bad_parameter, join_names
from modelkeep.rl.environments import atari, doom, minatar
from modelkeep.rl.environments.levels import require_alike
from modelkeep.rl.environments.vector import Environments

GAMES: dict[str, Callable[[], Sequence[str]]] = {
    "minatar": lambda: minatar.GAMES,
    "atari": lambda: tuple(atari.games()),
    "doom": lambda: doom.SCENARIOS,
}


def make(name: str, count: int, *, life_ends: bool = False) -> Environments:
    """`count` copies of a game, stepped together.

    Args:
        name: such as "minatar/breakout", "atari/Pong" or "doom/basic".
        count: how many.
        life_ends: a learner takes a lost life for an end; the episode goes on. Only Atari's games have lives.

    >>> games = make("minatar/breakout", 16)
    >>> games.observation_shape, games.actions
    ((4, 10, 10), 3)
    >>> games.reset(seed=0).shape
    (16, 4, 10, 10)
    """
    if count < 1:
        raise bad_parameter("make", "count", "an integer above 0", count)
    family, _, game = name.partition("/")
    if family not in GAMES:
        raise _unknown(name, tuple(GAMES), "family of environments", family)
    if game not in (known := GAMES[family]()):
        raise _unknown(name, known, f"game of {family}", game)
    if family == "atari":
        return atari.Atari(game, count, life_ends=life_ends)
    if family == "doom":
        return doom.Doom(game, count)
    return minatar.MinAtar(game, count)


def make_levels(names: str, count: int, *, life_ends: bool = False) -> tuple[Environments, ...]:
    """`count` copies of each game in "minatar/breakout+minatar/asterix", so that one agent can learn them jointly."""
    return require_alike([make(name, count, life_ends=life_ends) for name in names.split("+")])


def _unknown(name: str, allowed: Sequence[str], what: str, got: str) -> InputError:
    near = difflib.get_close_matches(got, allowed, n=3)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return InputError(
        f"{name!r} is not an environment: there is no {what} '{got}'.{hint} There are: {join_names(allowed)}."
    )
