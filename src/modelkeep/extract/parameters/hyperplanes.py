"""The hyperplanes on which units switch, from the kinks of parallel lines.

Unit i bends the logits by v_i·|w_i·u| where a line of direction u crosses its boundary w_i·x + b_i = 0, wherever that
is: on parallel lines, equal bends are the same unit. As many lines as there are dimensions give as many points of each
hyperplane, so all of it.
"""

from __future__ import annotations

import numpy as np

from modelkeep.extract.parameters.kinks import Kinks, kinks
from modelkeep.extract.parameters.oracle import Array, Oracle, Unrecoverable


def hyperplanes(oracle: Oracle, random: np.random.Generator, *, reach: float, noise: float, most: int) -> Array:
    """The hyperplanes (k, width + 1) that the lines of one random direction cross: unit normals, then offsets.

    With x in the hyperplane where normal·x + offset = 0. The sign of a normal is arbitrary here.
    """
    width = oracle.width
    basis = np.linalg.qr(random.standard_normal((width, width)))[0].T  # rows: the direction, then those across it
    direction, across = basis[0], basis[1:]
    spread = reach / 8
    start = random.standard_normal(width) * spread / np.sqrt(width)
    starts = np.concatenate([start[None], start + spread * across])
    lines = []
    for place in starts:
        found = kinks(lambda t, at=place: oracle(at + t[:, None] * direction), reach, noise, most)  # type: ignore[misc]
        if len(found.at) > most:
            raise Unrecoverable(f"more than {most} units bend its logits; raise most_units if it may be that large")
        lines.append(found)
    known = []
    for i, place in enumerate(lines[0].at):
        crossings = [_same(lines[0], i, line) for line in lines[1:]]
        if None not in crossings:
            # normal·u = 1 and t moves by −(normal·e) per step along e: a closed form, no system to solve.
            normal = direction - (np.array(crossings, dtype=np.float64) - place) / spread @ across
            offset = -float(normal @ start) - place
            known.append(np.append(normal, offset) / np.linalg.norm(normal))
    return np.array(known).reshape(len(known), width + 1)


def _same(base: Kinks, i: int, line: Kinks) -> float | None:
    """Where the unit of kink i bends another line: the nearest jump, if it is near and no other is nearly as near."""
    if not len(line.at):
        return None
    apart = np.linalg.norm(line.jumps - base.jumps[i], axis=1)
    order = np.argsort(apart)
    others = np.linalg.norm(np.delete(base.jumps, i, axis=0) - base.jumps[i], axis=1)
    limit = min(1e-2 * float(np.linalg.norm(base.jumps[i])), float(others.min()) / 4 if len(others) else np.inf)
    return float(line.at[order[0]]) if apart[order[0]] <= limit else None
