"""Explorer: every short history of malicious parties against honest ones (`explored_world`), from several states.

States that look alike are explored once. `python tests/govern/session/explorer.py` says what was explored;
test_explorer.py is a shorter search, and one with parties whose software has a known hole, which must be found.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, it stands beside nothing

from govern.session.explored_world import Move, World
from modelkeep.core import signing
from modelkeep.core.signing import Signer
from modelkeep.govern.session.pass_record import PassRecord

# Who is honest, of whom: one against one, one against two who are in league, and two against one.
CASTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "alice against bob": (("alice", "bob"), ("bob",)),
    "alice and carol against bob": (("alice", "bob", "carol"), ("bob",)),
    "alice against bob and carol": (("alice", "bob", "carol"), ("bob", "carol")),
}
BOTH = "alice against bob and carol"


@dataclass
class Explored:
    """How much was explored: moves that were tried, states that differ, and the histories that break a promise."""

    depth: int
    steps: int = 0
    states: int = 0
    refused: int = 0
    seconds: float = 0.0
    whole: int = 0  # up to how many moves all histories were searched
    broken: list[tuple[str, list[Move]]] = field(default_factory=list)


def make_starts(honest: Sequence[str], i: int = 0) -> dict[str, list[Move]]:
    """Histories to begin from: as far as honest parties take one pass with an honest leader, step by step."""

    def all_do(*move: str) -> list[Move]:
        return [(move[0], name, *move[1:]) for name in honest]

    settled = [*all_do("open"), *all_do("settle", "0")]
    asked = [*settled, *all_do("ask", str(i))]
    begun = [*asked, *all_do("begin", str(i), *("0" for _ in honest))]
    cleared = [*begun, *all_do("clear", "0")]
    prepared = [*cleared, ("send", "bob", "0"), *all_do("finish")]
    again = [*prepared, *all_do("open")]
    return {
        "nothing": [],
        "settled": settled,
        "asked": asked,
        "begun": begun,
        "cleared": cleared,
        "prepared": prepared,
        "prepared, opened again": again,
        "one has committed, one not": [*again, ("settle", honest[0], "1"), ("settle", honest[-1], "0")],
    }


def explore(
    depth: int,
    kind: type[PassRecord] = PassRecord,
    start: Sequence[Move] = (),
    *,
    cast: str = BOTH,
    most: int = 1,
    seconds: float = 1e9,
) -> Explored:
    """Search all histories of up to `depth` moves after `start`, the shortest first, for as long as it may take.

    States that look alike are gone on from once.
    """
    told, (names, honest) = Explored(depth), CASTS[cast]
    began = time.process_time()
    with TemporaryDirectory() as folder, _deterministic():
        signers = {name: Signer.at(Path(folder) / f"{name}.pem") for name in names}

        def play(history: Sequence[Move]) -> World:
            world = World(signers, kind, honest, most)
            _NONCES[0] = 0
            for i, move in enumerate(history):
                world.make(move, known=i + 1 < len(history))
            return world

        frontier: list[list[Move]] = [list(start)]
        seen: set[int] = set()
        for _ in range(depth):
            following: list[list[Move]] = []
            for history in frontier:
                before = play(history)
                if before.broken:
                    told.broken.append((before.broken[0], history))
                for move in before.moves():
                    told.seconds = time.process_time() - began
                    if told.broken or told.seconds > seconds:
                        return told
                    world = play(history)
                    told.steps += 1
                    if not world.make(move):
                        told.refused += 1
                    elif world.broken:
                        told.broken.append((world.broken[0], [*history, move]))
                    elif (look := hash(world.look())) not in seen:
                        seen.add(look)
                        told.states += 1
                        following.append([*history, move])
                    world.close()
                before.close()
            frontier = following
            told.whole += 1
    return told


_NONCES = [0]


@contextmanager
def _deterministic() -> Iterator[None]:
    """Nonces and times that repeat, so that a history signs the same again, and each signature is made once."""

    def nonce(size: int) -> str:
        _NONCES[0] += 1
        return hashlib.sha256(str(_NONCES[0]).encode()).hexdigest()[: 2 * size]

    checked: Callable[..., bool] = lru_cache(maxsize=200_000)(signing.is_signed)
    signed: Callable[..., str] = lru_cache(maxsize=200_000)(Signer.sign)
    with (
        patch("modelkeep.govern.session.pass_record.token_hex", nonce),
        patch("modelkeep.govern.passes.is_signed", checked),
        patch("modelkeep.govern.ledger.entry.is_signed", checked),
        patch("modelkeep.govern.ledger.ledger.time.time", lambda: 0.0),
        patch.object(Signer, "sign", lambda signer, content: signed(signer, content)),
    ):
        yield


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1e9, help="Stop each search after so long.")
    parser.add_argument("--cast", choices=CASTS, help="Only these parties.")
    asked = parser.parse_args()
    broken = 0
    for cast in [asked.cast] if asked.cast else CASTS:
        _, honest = CASTS[cast]
        for name, start in make_starts(honest).items():
            told = explore(asked.depth, start=start, cast=cast, seconds=asked.seconds)
            broken += len(told.broken)
            sys.stdout.write(
                f"{cast}, from '{name}': all histories of up to {told.whole} more moves"
                f"{'' if told.whole == told.depth else f' and some of {told.whole + 1}'}; {told.steps:,} tried, "
                f"{told.refused:,} refused, {told.states:,} different states, {len(told.broken)} promises broken, "
                f"{told.seconds:.0f} s.\n"
            )
            for why, history in told.broken:
                sys.stdout.write(f"  {why}: {' · '.join(' '.join(move) for move in history)}\n")
            sys.stdout.flush()
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
