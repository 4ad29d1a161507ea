"""Exhibits: examples as a page can show them: a picture, the features of a table, the words of a text, or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch.utils.flop_counter import FlopCounterMode

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.report.words import read_rows
from modelkeep.web.rasters import MOST_PIXELS, Raster, is_picture, make_raster

Kind = Literal["picture", "table", "text", "numbers"]
MOST_LOOKED = 1000
"""Examples of the data that an interactive view looks at; more would keep a person waiting."""
PATIENCE = 2e11
"""Floating-point operations that a person waits for: one or two seconds of one core. A count, because a clock would
choose other examples each time."""
_LEAST_LOOKED = 24
TOP = 5  # classes of an answer that are shown


@dataclass(frozen=True)
class Line:
    """One example in a list: its number in the data, its label, and the model's answer."""

    index: int
    label: str
    predicted: str
    probability: float
    right: bool


@dataclass(frozen=True)
class Share:
    """A class and its probability."""

    name: str
    probability: float


@dataclass(frozen=True)
class Exhibit:
    """What an example is, in the one way that can be shown."""

    kind: Kind
    picture: Raster | None = None
    features: tuple[tuple[str, float], ...] = ()
    text: str = ""


def kind_of(data: Data) -> Kind:
    """How examples of these data are shown."""
    if data.tokenizer is not None and data.nest is not None and data.nest.tokens is not None:
        return "text"
    if is_picture(data.input_shape):
        return "picture"
    return "table" if len(data.input_shape) == 1 else "numbers"


def feature_names(data: Data) -> tuple[str, ...]:
    """The names of the columns of a table, or their numbers."""
    return data.features or tuple(f"feature {i}" for i in range(data.input_shape[0]))


def exhibit(data: Data, index: int, most: int = MOST_PIXELS) -> Exhibit:
    """Example `index` of the data."""
    kind = kind_of(data)
    if kind == "text":
        return Exhibit(kind, text=read_rows(data, [index])[0])
    return exhibit_input(data, data.rows([index])[0], most)


def exhibit_input(data: Data, x: torch.Tensor, most: int = MOST_PIXELS) -> Exhibit:
    """An input `x: (*input_shape)` like those of the data, such as one that an attack changed; not a text."""
    kind = kind_of(data)
    if kind == "picture":
        return Exhibit(kind, make_raster(x, data.bounds, most))
    if kind == "table":
        return Exhibit(kind, features=tuple(zip(feature_names(data), x.double().tolist(), strict=True)))
    return Exhibit("numbers")


def operations(model: Model) -> int:
    """Floating-point operations of one answer, as far as torch counts them: products of matrices and convolutions.

    >>> from torch import nn
    >>> operations(Model(nn.Linear(3, 2), input_shape=(3,), classes=2))
    12
    """
    counter = FlopCounterMode(display=False)
    with counter:
        model.logits(model.probe()[:1])
    return int(counter.get_total_flops())


class Lookout:
    """The examples that the views look at, and how the model answers them. All numbers are those of the whole data.

    Of a large model they are fewer: as many as are answered in a moment.
    """

    def __init__(self, model: Model, data: Data, seed: int = 0) -> None:
        model.require_fit(data)
        self.operations = operations(model)
        affordable = int(PATIENCE / max(self.operations, 1))
        count = min(MOST_LOOKED, max(_LEAST_LOOKED, affordable), len(data))
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
        self.index: list[int] = order[:count].sort().values.tolist() if count < len(data) else list(range(count))
        self.data = data.take(self.index).load()
        self.probabilities = torch.cat([model.probs(x).cpu() for x, _ in self.data.batches(64)])

    def lines(self) -> tuple[Line, ...]:
        """The examples as a person wants them: errors first, the surest error at the top; then the least sure."""
        sure, answers = self.probabilities.max(dim=1)
        labels = self.data.y.tolist()
        classes = self.data.classes
        told = [
            Line(index, classes[label], classes[answer], probability, label == answer)
            for index, label, answer, probability in zip(
                self.index, labels, answers.tolist(), sure.tolist(), strict=True
            )
        ]
        return tuple(sorted(told, key=lambda line: (line.right, line.probability if line.right else -line.probability)))


def top_shares(probabilities: torch.Tensor, classes: Sequence[str], count: int = TOP) -> tuple[Share, ...]:
    """The likeliest classes `(classes,)`, the first of which is the answer.

    >>> top_shares(torch.tensor([0.25, 0.75]), ("cat", "dog"), 1)
    (Share(name='dog', probability=0.75),)
    """
    order = probabilities.argsort(descending=True, stable=True)[:count].tolist()
    return tuple(Share(classes[i], float(probabilities[i])) for i in order)
