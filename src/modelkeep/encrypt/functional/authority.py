"""Authority: holds the master key, gives keys for functions, and keeps account of what all of them together reveal.

Each key opens one linear function of every input that is or will be encrypted. The functions span a space, and every
vector in that space is open. If it holds the unit vector of a feature, that feature is read exactly. As many
independent functions as features open the whole input: the server solves linear equations. So the authority counts, and
refuses before that.

This is necessary, and not sufficient: one function with weights 1 and 16 opens two features of four bits each. Weights
are bounded therefore, and who runs an authority should look at the functions that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from modelkeep.core.errors import AccessError, Remedy, bad_parameter
from modelkeep.encrypt.functional.group import Group, standard_group
from modelkeep.encrypt.functional.scheme import FunctionKey, MasterKey, PublicKey


class Authority:
    """The holder of a master key for inputs of `features` integers.

    `most_rank` is how many independent functions it allows (all but one by default), `most_weight` the largest weight.
    With `reveal_inputs` it gives every key that is asked for: training in the way of CryptoNN needs that, and then the
    server can read the data.
    """

    def __init__(
        self,
        features: int,
        *,
        group: Group | None = None,
        most_rank: int | None = None,
        most_weight: int = 127,
        reveal_inputs: bool = False,
    ) -> None:
        if features < 2:
            raise bad_parameter("Authority", "features", "at least 2", features)
        most = features - 1 if most_rank is None else most_rank
        if not 0 < most < features:
            raise bad_parameter("Authority", "most_rank", f"from 1 to {features - 1}", most)
        self.group = group if group is not None else standard_group()
        self.features, self.reveal_inputs = features, reveal_inputs
        self.most_rank, self.most_weight = most, most_weight
        self._master = MasterKey(self.group, features)
        self._space = Space(features, self.group.order)

    def __repr__(self) -> str:
        return f"Authority({self.features} features, {self.rank} of at most {self.most_rank} functions given)"

    def public_key(self) -> PublicKey:
        """What the owners of data encrypt with."""
        return self._master.public_key()

    @property
    def rank(self) -> int:
        """How many independent functions have been opened so far, over all keys ever given."""
        return self._space.rank

    @property
    def revealed(self) -> tuple[int, ...]:
        """The features whose exact values follow from the keys that were given."""
        return self._space.unit_vectors()

    def keys(self, weights: torch.Tensor) -> tuple[FunctionKey, ...]:
        """The keys for the rows of integer `weights: (functions, features)`.

        Raises:
            AccessError: Together with the keys that were given before they reveal too much; none is given.
        """
        rows = [[int(each) for each in row] for row in weights.tolist()]
        largest = int(weights.abs().max())
        if largest > self.most_weight:
            raise AccessError(
                f"A weight of this function is {largest} in magnitude, and this authority allows {self.most_weight}: "
                "large weights read several features at once. Use weights of fewer bits."
            )
        after = self._space.extended(rows)
        if not self.reveal_inputs:
            self._check(after)
        self._space = after
        return tuple(self._master.derive(row) for row in rows)

    def _check(self, after: Space) -> None:
        remedy = Remedy(
            "Make the first layer narrower than the input, or say reveal_inputs=True if the server may read the data.",
            "Make the first layer narrower than the input.",
        )
        if after.rank > self.most_rank:
            raise AccessError(
                f"These keys would open {after.rank} independent functions of {self.features} features, and this "
                f"authority allows {self.most_rank}. With {self.features} of them the server solves for every input.",
                remedy=remedy,
            )
        opened = after.unit_vectors()
        if opened:
            raise AccessError(
                f"These keys would open feature {opened[0]} exactly{_others(len(opened) - 1)}: its unit vector is a "
                "combination of the functions.",
                remedy=remedy,
            )


class Space:
    """The row space of integer vectors modulo the prime order of the group, in reduced echelon form.

    Modulo that prime is where keys are combined. It is also right over the rationals while the entries are small: a
    minor that is not 0 is below the prime (by Hadamard's bound), and so is not 0 modulo it.
    """

    def __init__(self, width: int, prime: int, rows: dict[int, list[int]] | None = None) -> None:
        self._width, self._prime = width, prime
        self._rows = rows if rows is not None else {}  # by the column of the leading 1

    @property
    def rank(self) -> int:
        """The dimension."""
        return len(self._rows)

    def extended(self, vectors: Sequence[Sequence[int]]) -> Space:
        """The space with more vectors; this one stays as it is."""
        made = Space(self._width, self._prime, {pivot: list(row) for pivot, row in self._rows.items()})
        for vector in vectors:
            if len(vector) != self._width:
                raise bad_parameter("Authority.keys", "weights", f"rows of {self._width} integers", len(vector))
            made._add(list(vector))
        return made

    def unit_vectors(self) -> tuple[int, ...]:
        """The places whose unit vectors lie in the space.

        A vector of the space is the combination of rows with its entries at their leading places as factors. So a unit
        vector lies in it only where it is a row itself.
        """
        return tuple(sorted(pivot for pivot, row in self._rows.items() if sum(map(bool, row)) == 1))

    def _add(self, vector: list[int]) -> None:
        prime = self._prime
        vector = [each % prime for each in vector]
        for pivot, row in self._rows.items():
            if vector[pivot]:
                vector = _minus(vector, vector[pivot], row, prime)
        place = next((i for i, each in enumerate(vector) if each), None)
        if place is None:
            return
        inverse = pow(vector[place], -1, prime)
        vector = [each * inverse % prime for each in vector]
        for pivot, row in self._rows.items():
            if row[place]:
                self._rows[pivot] = _minus(row, row[place], vector, prime)
        self._rows[place] = vector


def _minus(vector: list[int], factor: int, row: list[int], prime: int) -> list[int]:
    return [(a - factor * b) % prime for a, b in zip(vector, row, strict=True)]


def _others(count: int) -> str:
    return "" if count == 0 else f", and {count} more"
