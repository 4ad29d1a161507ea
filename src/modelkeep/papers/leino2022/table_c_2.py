"""Table C.2: the accuracy that differential privacy costs, with the practice of today.

As in section 8.3.3 a quarter of the data is private and trained on, a quarter is for testing, and half is held out. It
belongs to the attacker, and so is public. Features are scaled by the held-out half, and the settings of each training
are chosen on it, on as many examples as the private quarter has: neither costs any ε. The networks are those of the
thesis' section with tanh in place of ReLU, whose activations are bounded (Papernot2021), and without dropout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.papers.result import Claim, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.privacy.private_training import DPSGD
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Adam, Recipe, cross_entropy, evaluate, fit
from modelkeep.zoo import datasets

EPSILONS = (0.25, 1.0, 4.0, 16.0)
ROWS = {"breast-cancer": "BCW", "pima-diabetes": "PD", "german-credit": "GC", "adult": "Adult", "mnist": "MNIST"}
PAPER = {
    "breast-cancer": (0.944, 0.609, 0.675, 0.763, 0.808),
    "pima-diabetes": (0.756, 0.673, 0.651, 0.649, 0.654),
    "german-credit": (0.701, 0.610, 0.661, 0.687, 0.698),
    "adult": (0.849, 0.500, 0.501, 0.500, 0.499),
    "mnist": (0.973, 0.106, 0.132, 0.251, 0.331),
}
"""Test accuracies without a defence, and at each ε; the sets that can be had here."""
_LEAST_RATE = 0.02
"""A batch is at least this share of the private data: larger batches drown less in noise of the same ε."""


@trial("leino2022/table-c.2")
def train_privately(
    *, seed: int, data: str, epsilon: float | None, images: int, candidates: list[list[float]]
) -> dict[str, Any]:
    """Accuracies of one network; `candidates` are pairs (learning rate, epochs), chosen among on public data."""
    private, test, public = _groups(data, images, seed)
    if epsilon is None:
        model = _network(private, seed)
        fit(model, private, cross_entropy, Recipe(epochs=50, optimizer=Adam()), seed=seed)
        return _accuracies(model, private, test) | {"chosen": None}
    share = min(0.8, len(private) / len(public))
    stand_in, judged = public.split(share, 1 - share, seed=seed)
    scores = [_accuracy(_trained(stand_in, epsilon, rate, epochs, seed), judged) for rate, epochs in candidates]
    chosen = candidates[max(range(len(scores)), key=lambda i: scores[i].value)]
    model = _trained(private, epsilon, chosen[0], chosen[1], seed)
    return _accuracies(model, private, test) | {"chosen": chosen}


def _groups(name: str, images: int, seed: int) -> tuple[Data, Data, Data]:
    """The private quarter, the one for testing, and the public half, by which features are scaled."""
    train, test = datasets.load(name, "train"), datasets.load(name, "test")
    everything = replace(train, x=torch.cat([train.x, test.x]), y=torch.cat([train.y, test.y]))
    everything = everything.sample(min(images, len(everything)), seed)
    private, judged, public = everything.split(0.25, 0.25, 0.5, seed=seed)
    if everything.x.ndim > 2:
        return private, judged, public
    mean, deviation = public.x.mean(dim=0), public.x.std(dim=0).clamp_min(1e-6)

    def scaled(part: Data) -> Data:
        # A feature far out of the public range would only be clipped away later.
        return replace(part, x=((part.x - mean) / deviation).clamp(-4, 4), bounds=None)

    return scaled(private), scaled(judged), scaled(public)


def _network(data: Data, seed: int) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        features, classes = data.input_shape[0], len(data.classes)
        module = (
            nn.Sequential(nn.Linear(features, 2 * features), nn.Tanh(), nn.Linear(2 * features, classes))
            if len(data.input_shape) == 1
            else nn.Sequential(
                nn.Conv2d(features, 20, 5),
                nn.MaxPool2d(2),
                nn.Tanh(),
                nn.Conv2d(20, 50, 5),
                nn.MaxPool2d(2),
                nn.Tanh(),
                nn.Flatten(),
                nn.LazyLinear(500),
                nn.Tanh(),
                nn.Linear(500, classes),
            )
        )
        module(data.x[:2])
    return Model(module, input_shape=data.input_shape, classes=data.classes, bounds=data.bounds)


def _trained(data: Data, epsilon: float, learning_rate: float, epochs: float, seed: int) -> Model:
    model = _network(data, seed)
    batch_size = min(len(data), max(32, round(_LEAST_RATE * len(data))))
    method = DPSGD(epsilon=epsilon, learning_rate=learning_rate, epochs=int(epochs), batch_size=batch_size)
    method(model, data, seed=seed)
    return model


def _accuracy(model: Model, data: Data) -> Estimate:
    _, accuracy = evaluate(model, data)
    return accuracy


def _accuracies(model: Model, private: Data, test: Data) -> dict[str, Any]:
    found = {"train": _accuracy(model, private), "test": _accuracy(model, test)}
    return {name: [round(each.value * each.n), each.n] for name, each in found.items()}


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per set and ε; the small size takes 10,000 rows of Adult and 40,000 pictures of MNIST."""
    most = {"adult": 10_000, "mnist": 40_000} if size == "small" else {}
    wanted: list[float | None] = [None, *EPSILONS]
    return [
        Trial.of(
            train_privately,
            {
                "data": data,
                "epsilon": epsilon,
                "images": most.get(data, 10**6),
                "candidates": [[0.1, 15], [0.25, 15]] if data == "mnist" else [[0.1, 20], [0.5, 20], [0.5, 60]],
            },
            seed,
        )
        for data in reversed(ROWS)
        for epsilon in wanted
    ]


def report(result: StudyResult) -> PaperTable:
    """Test accuracies, ours beside the thesis'."""
    cells = []
    for data, row in ROWS.items():
        for epsilon, printed in zip((None, *EPSILONS), PAPER[data], strict=True):
            found = next(iter(values(result.records, data=data, epsilon=epsilon)), None)
            column = "no defence" if epsilon is None else f"ε = {epsilon:g}"
            cells.append(Cell(row, column, None if found is None else Estimate.rate(*found["test"]), printed))
    return PaperTable(
        study=result.study, cells=tuple(cells), claims=tuple(_claims(cells)), provenance=result.provenance
    )


def _claims(cells: Sequence[Cell]) -> list[Claim]:
    ours = {(cell.row, cell.column): cell.ours for cell in cells}
    says = "Differential privacy has a steep cost in accuracy, particularly high for small ε."
    also = "A training with ε = 4 leaves a useful classifier of MNIST (the thesis' has 0.251)."
    plain, strict, wide = (ours["MNIST", column] for column in ("no defence", "ε = 0.25", "ε = 4"))
    if plain is None or strict is None or wide is None:
        return [Claim(sentence, "a trial is missing.", None) for sentence in (says, also)]
    return [
        Claim(
            says, f"MNIST {plain.value:.3f} without a defence, {strict.value:.3f} at ε = 0.25.", strict.high < plain.low
        ),
        Claim(also, f"{wide.value:.3f}.", wide.low > 0.9),
    ]


_PRIVATE_ACCURACY = declare(
    "study",
    "private-accuracy",
    paper="Leino2022, table C.2",
    extra="private",
    does="the accuracy of networks trained with differential privacy, at four ε",
)(PaperStudy(trials, report))
