"""Square: a random search that changes one square of the input at a time and sees only scores (Andriushchenko2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case
from modelkeep.attack.query.windows import Windows
from modelkeep.core.access import Labels, Logits, Scores
from modelkeep.core.method import declare, setting
from modelkeep.core.norms import Ball, per_example


@declare("attack", "square", access="scores", paper="Andriushchenko2020")
class Square(BoundedAttack):
    """Random squares, kept where they help.

    A change is proposed in a random square of each image (in a random set of values where inputs are not images) and
    kept if it brings the wanted answer nearer. It needs no gradient, so it also finds what masked gradients hide.
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "queries": 5}

    queries: int = setting("How often the model may be asked about each example.", default=5000, at_least=1)
    first_share: float = setting(
        "The share of the input that the first squares cover; it falls as the paper's schedule says.",
        default=0.8,
        above=0,
        at_most=1,
    )

    def search(self, case: Case[Scores], /) -> torch.Tensor:
        """The best input found for each example, `(n, ...)`."""
        windows = Windows(tuple(case.original.shape[1:]), case.generator)
        propose = _flip if case.ball.norm == "linf" else _move_mass
        end, active, going = case.original.clone(), torch.arange(len(case), device=case.original.device), case
        x, best = case.original, case.original.new_full((len(case),), -torch.inf)
        for query in range(self.queries):
            if query == 0:
                tried = _start(going, windows)
            else:
                tried = propose(going, x, windows, _share(self.first_share, query / self.queries))
            tried = going.inside(tried)
            scores = _scores(going, tried)
            # The paper's losses: the margin to lose a label, the cross-entropy to get one.
            value = going.gain(scores) if going.targeted else going.lead(scores)
            # A tie is taken too: where scores are constant over regions, standing still would be the end.
            if going.random:  # the best value was one of luck: it is drawn again
                scores_of_best = _scores(going, x)
                best = going.gain(scores_of_best) if going.targeted else going.lead(scores_of_best)
            better = value >= best
            x = torch.where(per_example(better, x), tried, x)
            best = torch.maximum(best, value)
            won = going.reached(scores)
            if won.any():
                end[active[won]] = tried[won]
                case.health.see_solved(query, int(won.sum()), self.queries)
                rest = ~won
                active, x, best, going = active[rest], x[rest], best[rest], going.part(rest)
                if len(active) == 0:
                    return end
        end[active] = x
        return end


@dataclass(frozen=True)
class SquareOnLogits:
    """Square where the attacker has the network: it sees logits, because the probabilities of a sure model round.

    It still follows no gradient, so what it finds and gradients did not is a sign that they are masked.
    """

    square: Square
    title: ClassVar[str] = "Square"
    sees: ClassVar[type[Labels]] = Logits

    def search(self, case: Case[Logits], /) -> torch.Tensor:
        """The best input found for each example, `(n, ...)`."""
        return self.square.search(case)


def _scores(case: Case[Scores], x: torch.Tensor) -> torch.Tensor:
    """Logits up to a constant per example, which no margin feels; a probability that underflowed is the smallest."""
    if isinstance(case.view, Logits):
        return case.view.logits(x)
    probs = case.view.probs(x)
    return probs.clamp_min(torch.finfo(probs.dtype).tiny).log()


def _share(first: float, spent: float) -> float:
    """The share of the input that a window covers, halved at the paper's points of a budget of 10,000."""
    halvings = sum(10_000 * spent > edge for edge in (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000))
    return first * 0.5**halvings


def _start(case: Case[Scores], windows: Windows) -> torch.Tensor:
    """At the edge of the ball: vertical stripes of ±radius in linf, tiles of opposite bumps in l2 and l1."""
    if case.ball.norm == "linf":
        return case.original + case.ball.reach * windows.stripes(len(case)).to(case.original)
    return case.original + _scale(windows.tiles(len(case)).to(case.original), case.ball)


def _flip(case: Case[Scores], x: torch.Tensor, windows: Windows, share: float) -> torch.Tensor:
    """`x` with +radius or -radius all over one window, each channel with its own sign."""
    place, signs = windows.draw(len(x), share)
    place, signs = place.to(x.device), signs.to(x)
    original, now = (windows.flat(tensor).gather(2, place) for tensor in (case.original, x))
    bounds = case.ball.bounds or (-math.inf, math.inf)
    up, down = ((original + sign * case.ball.reach * signs).clamp(*bounds) for sign in (1, -1))
    # A query about the same input again would be lost; in small windows of grey images that is every second one.
    same = (up == now).flatten(1).all(dim=1)[:, None, None]
    return windows.flat(x).scatter(2, place, torch.where(same, down, up)).view_as(x)


def _move_mass(case: Case[Scores], x: torch.Tensor, windows: Windows, share: float) -> torch.Tensor:
    """`x` with the change in one window moved into another, in a new pattern and with what the ball still holds.

    Algorithm 3 of the paper, with p-th powers for squares, so that it serves l1 too.
    """
    p = 2 if case.ball.norm == "l2" else 1
    (into, pattern), (out_of, _) = (windows.draw(len(x), share, bumps=True) for _ in range(2))
    into, out_of, pattern = into.to(x.device), out_of.to(x.device), pattern.to(x)
    change = windows.flat(x - case.original)
    unused = (case.ball.reach**p - change.abs().pow(p).sum(dim=(1, 2), keepdim=True)).clamp_min(0)
    there = change.gather(2, into)
    emptied = change.scatter(2, out_of, 0.0).scatter(2, into, 0.0)
    freed = (change.abs().pow(p) - emptied.abs().pow(p)).sum(dim=2, keepdim=True).clamp_min(0)
    mixed = pattern / _length(pattern, p) + there / _length(there, p)
    filled = mixed / _length(mixed, p) * (unused / change.shape[1] + freed).pow(1 / p)
    return case.original + _scale(emptied.scatter(2, into, filled).view_as(x), case.ball)


def _length(x: torch.Tensor, p: int) -> torch.Tensor:
    return x.abs().pow(p).sum(dim=2, keepdim=True).pow(1 / p).clamp_min(1e-12)


def _scale(change: torch.Tensor, ball: Ball) -> torch.Tensor:
    """The change at the full length of the radius."""
    length = _length(change.flatten(1)[:, None], 2 if ball.norm == "l2" else 1)
    return change * per_example(ball.reach / length, change)
