"""Materials: the inputs and labels that a party can bring into passes, known by their fingerprints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor

from modelkeep.core.data import Data
from modelkeep.core.errors import GovernError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.govern.consent.policy import USES
from modelkeep.govern.passes import Pass


class Materials:
    """What one party brings."""

    def __init__(self, party: str, data: Iterable[Data]) -> None:
        self._party = party
        self._inputs: dict[str, Tensor] = {}
        self._labels: dict[str, Tensor] = {}
        for each in data:
            self.add(each)

    def add(self, data: Data) -> None:
        """Bring the inputs or the labels of these data into passes that name them."""
        self.add_inputs(data.x)
        self._labels[fingerprint({"y": data.y})] = data.y

    def add_inputs(self, x: Tensor) -> str:
        """Bring these inputs into passes that name them so."""
        name = fingerprint({"x": x})
        self._inputs[name] = x
        return name

    @contextmanager
    def lend(self, data: Data | Tensor) -> Iterator[None]:
        """Bring these data, or these inputs alone, for the time of the block."""
        before = dict(self._inputs), dict(self._labels)
        if isinstance(data, Tensor):
            self.add_inputs(data)
        else:
            self.add(data)
        try:
            yield
        finally:
            self._inputs, self._labels = before

    def inputs(self, of: Pass) -> Tensor | None:
        """The inputs of a pass, where this party is their source."""
        brings = of.source == self._party and of.purpose in USES
        return self._find(self._inputs, of.data, "inputs", of) if brings else None

    def labels(self, of: Pass) -> Tensor | None:
        """The labels of a pass, where this party has them."""
        needed = of.sink == self._party and of.purpose in ("train", "evaluate")
        return self._find(self._labels, of.labels, "labels", of) if needed else None

    def _find(self, known: dict[str, Tensor], wanted: str, what: str, of: Pass) -> Tensor:
        if wanted not in known:
            raise GovernError(
                f"'{self._party}' does not have the {what} with fingerprint {wanted[:12]}…. Start it with --data that "
                "names them, the same data as in the agreement."
            )
        rows, last = len(known[wanted]), of.first + of.rows
        if last > rows:
            raise GovernError(f"{of} is of the rows {of.first} to {last}; there are {rows} of the {what}.")
        return known[wanted]
