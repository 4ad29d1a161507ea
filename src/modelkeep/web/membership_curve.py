"""Membership curve: the ROC of a membership attack, and the records that fall at a rate of false accusations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.registry import find
from modelkeep.core.results import Estimate
from modelkeep.privacy import Knowledge, Membership
from modelkeep.privacy.membership.roc import operating_point, roc, threshold_at

FAST = ("loss", "modified-entropy", "entropy", "naive")
"""Attacks that ask the model once for each record and train nothing."""
MOST_RECORDS = 10_000
LEAST_OTHERS = 20
"""Other records below which no attack is run: half of them are the attacker's."""
SHOWN = 36
"""Records that a page lists."""
_STEPS = 240
_CORNERS = 400  # of the drawn curve; more are less than a pixel apart


@dataclass(frozen=True)
class Record:
    """A member by its row among the members, its score, and how many non-members score as high."""

    row: int
    score: float
    as_high: int


@dataclass(frozen=True)
class Fallen:
    """What the attack finds where at most `rate` of the non-members are accused: those that score above `threshold`.

    `found` is the share of the members with its interval; `claimed` says whether that is beyond doubt more than by
    chance. With fewer than `needed` non-members nothing can be claimed.
    """

    rate: float
    threshold: float
    found: Estimate
    members: int
    accused: int
    non_members: int
    needed: int
    enough: bool
    claimed: bool
    records: tuple[Record, ...]

    @property
    def sentence(self) -> str:
        """What this rate shows, and no more."""
        told = (
            f"{self.members} of {self.found.n} members fall, and {self.accused} of {self.non_members} others with them"
        )
        if not self.enough:
            return (
                f"Inconclusive: {told}, but a claim at {per_cent(self.rate)} false positives needs {self.needed:,} "
                f"records that the model has not seen, and there are {self.non_members:,}."
            )
        if self.claimed:
            return f"Beyond doubt more than by chance: {told}."
        return f"Chance may find as many: {told}. That is no proof that no member can be told."


class MembershipCurve:
    """One attack's scores, asked at any false-positive rate."""

    def __init__(self, found: Membership) -> None:
        self.found = found
        self._members = found.members.double().numpy()
        self._others = found.non_members.double().numpy()
        self.rates = _rates(len(self._others))
        self._rank = torch.round(found.accusations(found.members) * len(self._others)).long()
        self.at = lru_cache(maxsize=1024)(self._at)

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """False and true positive rates where the curve turns; where those are many, the ones a pixel apart."""
        false, true = roc(self._members, self._others)
        turns = np.flatnonzero(np.diff(false, prepend=-1.0) + np.diff(false, append=2.0))
        if len(turns) > _CORNERS:
            place = np.log(np.maximum(false[turns], 0.5 / len(self._others)))
            wanted = np.searchsorted(place, np.linspace(place[0], place[-1], _CORNERS)).clip(0, len(turns) - 1)
            turns = turns[np.unique([0, *wanted, *(wanted - 1).clip(0), len(turns) - 1])]
        return tuple(zip(false[turns].tolist(), true[turns].tolist(), strict=True))

    def _at(self, rate: float) -> Fallen:
        """The records that fall at a false-positive rate, the surest first."""
        if not 0 < rate < 1:
            raise bad_parameter("at", "rate", "a number between 0 and 1", rate)
        point = operating_point(self._members, self._others, rate)
        threshold = threshold_at(self._others, rate)
        order = self.found.members.argsort(descending=True, stable=True).tolist()
        fallen = int((self._members > threshold).sum())
        return Fallen(
            rate=rate,
            threshold=threshold,
            found=point.found,
            members=fallen,
            accused=int((self._others > threshold).sum()),
            non_members=point.non_members,
            needed=point.needed,
            enough=point.enough,
            claimed=point.claimed,
            records=tuple(
                Record(row, float(self._members[row]), int(self._rank[row])) for row in order[: min(fallen, SHOWN)]
            ),
        )


class Leak:
    """The fast attacks on one model, with its training data as members and its data as others."""

    def __init__(self, model: Model, train: Data, data: Data, seed: int = 0) -> None:
        model.require_fit(train)
        model.require_fit(data)
        if len(data) < LEAST_OTHERS:
            raise InputError(
                f"A membership attack needs {LEAST_OTHERS} or more records that the model has not seen. There are "
                f"{len(data)}."
            )
        self.model, self.seed = model, seed
        self.members = _at_most(train, seed)
        self.others, self.held = _at_most(data, seed).split(0.5, 0.5, seed=seed)
        self.curve = lru_cache(maxsize=len(FAST))(self._curve)

    def _curve(self, attack: str) -> MembershipCurve:
        """The curve of one of the `FAST` attacks, as `modelkeep privacy` measures it."""
        if attack not in FAST:
            raise bad_parameter("curve", "attack", f"one of {', '.join(FAST)}", attack)
        method = find("membership", attack).load()()
        return MembershipCurve(method(self.model, self.members, self.others, Knowledge(self.held), seed=self.seed))


def per_cent(rate: float) -> str:
    """A rate as people write it.

    >>> per_cent(0.00123), per_cent(0.25)
    ('0.12 %', '25 %')
    """
    return f"{float(f'{100 * rate:.2g}'):g} %"


def _at_most(data: Data, seed: int) -> Data:
    """All of the data in their order, or as many as are looked at."""
    return data.load() if len(data) <= MOST_RECORDS else data.sample(MOST_RECORDS, seed).load()


def _rates(non_members: int) -> tuple[float, ...]:
    """The positions of the slider: evenly on a logarithmic scale, from 0.1 % (or less, where there is more to see)."""
    lowest = min(1e-3, 1 / non_members)
    first = math.log10(lowest)
    return tuple(float(f"{10 ** (first * (1 - step / _STEPS)):.4g}") for step in range(_STEPS))
