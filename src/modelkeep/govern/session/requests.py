"""Request: what a command asks a party to lead, done in the command's own process or in the one that serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from modelkeep.core.data import Data
from modelkeep.core.results import Result
from modelkeep.govern.session.leader import Leader
from modelkeep.govern.session.party import Party
from modelkeep.govern.session.runs import evaluate, infer, train
from modelkeep.zoo import datasets
from modelkeep.zoo.datasets.dataset import Part


@dataclass(frozen=True, kw_only=True)
class Request:
    """To train, evaluate or infer with `data` (a built-in set or a file).

    Args:
        verb: What to do.
        data: A built-in set, or the absolute path of a file.
        label: The column with the labels, where the data are a table.
        labels_at: For `evaluate`: which party has the labels; None: this one.
        updates: For `train`: after how many updates in all to stop; None: after all.
        patience: Seconds to wait for a party that is away, for a person, and for this party's turn to lead.
    """

    verb: Literal["train", "evaluate", "infer"]
    data: str
    label: str = "label"
    labels_at: str | None = None
    updates: int | None = None
    patience: float = 600.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a request: a result, or the logits `(n, classes)` of an inference."""

    result: Result | None = None
    logits: Tensor | None = None
    classes: Sequence[str] = ()


def perform(leader: Leader, request: Request) -> Outcome:
    """Lead what the request asks for."""
    party = leader.party
    if request.verb == "train":
        with party.materials.lend(open_data(request.data, party, request.label, "train")):
            return Outcome(train(leader, updates=request.updates))
    data = open_data(request.data, party, request.label, "test")
    if request.verb == "evaluate":
        return Outcome(evaluate(leader, data, labels_at=request.labels_at))
    return Outcome(None, infer(leader, data.x), party.pieces.classes)


def name_data(source: str) -> str:
    """The data as a process in another folder finds them.

    >>> name_data("mnist")
    'mnist'
    """
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source


def open_data(source: str, party: Party, label: str, part: Part) -> Data:
    """Data in the shape that the agreement's model takes."""
    return datasets.open(source, label=label, part=part, shape=party.agreement.card.input_shape)
