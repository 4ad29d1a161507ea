"""Table 6.9: how tight the Lipschitz bounds are, on networks trained plainly and on GloRo Nets.

The nets are the thesis' in `paper`; in `small` 2C2F stands in for both. Both trainings use MinMax, orthogonal weights
at the start, Adam and no augmentation; the GloRo Net's loss is EMMA (`train_certified`), where the thesis had TRADES.

The small size has shallow networks that are trained for minutes. A bound multiplies from layer to layer, so those that
were trained plainly are bounded by less than 100 there, and two claims on how large a plain network's bound is fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

import torch
from torch import nn

from modelkeep.certify.constants import lipschitz
from modelkeep.certify.guarantees import Standard
from modelkeep.certify.lower_bounds import LipschitzSearch
from modelkeep.certify.training import make_orthogonal, train_certified
from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.papers.result import Claim, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.folder import workdir
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Linear, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import cnn_2c2f, cnn_4c3f, cnn_6c2f

_NETWORKS: dict[str, Callable[..., nn.Module]] = {"2C2F": cnn_2c2f, "4C3F": cnn_4c3f, "6C2F": cnn_6c2f}


@trial("leino2022/table-6.9", formerly=("modelkeep.certify.studies.steepness:steepness",))
def measure_steepness(
    *, seed: int, data: str, method: str, radius: float, network: str, images: int, epochs: int, examples: int
) -> dict[str, Any]:
    """Train on `images` for `epochs`; local constants are those around the first `examples` test images."""
    train, test = datasets.load(data, "train").first(images), datasets.load(data, "test")
    model = train_network(train, method, radius, network, epochs, seed)
    return measure_bounds(model, test, radius, examples, seed)


def train_network(train: Data, method: str, radius: float, network: str, epochs: int, seed: int) -> Model:
    """A `standard` network or a `GloRo` Net."""
    module = _NETWORKS[network](train.input_shape, len(train.classes))
    make_orthogonal(module, seed)
    model = Model(module, input_shape=train.input_shape, classes=train.classes, bounds=train.bounds)
    recipe = Recipe(epochs=epochs, batch_size=256, learning_rate=Linear(2e-3, 0.0))
    checkpoint = workdir() / "training"
    if method == "standard":
        fit(model, train, cross_entropy, recipe, seed=seed, checkpoint=checkpoint)
    else:
        train_certified(model, train, radius, seed=seed, recipe=recipe, from_scratch=False, checkpoint=checkpoint)
    return model


def measure_bounds(model: Model, test: Data, radius: float, examples: int, seed: int) -> dict[str, Any]:
    """The three numbers of table 6.9, the second local one being an estimate, and how good the network is."""
    upper = lipschitz(model)
    lower = LipschitzSearch(local_radius=radius)(model, test.first(examples), seed=seed)
    assert lower.local is not None
    logits = torch.cat([model.logits(x) for x, _ in test.batches(1_000)]).double()
    verified = Standard().verified(logits, radius * upper.rate + upper.rounding_cost(test.x), test.y)
    return {
        "global UB": upper.constant,
        "global LB": lower.constant,
        "local LB": astuple(lower.local),
        "clean accuracy": [int((logits.argmax(dim=1) == test.y).sum()), len(test)],
        "VRA": [int(verified.sum()), len(test)],
    }


RADII = {"mnist": 1.58, "cifar-10": 36 / 255}
METHODS = ("standard", "GloRo")
_BOUNDS = ("global UB", "global LB", "local LB")
PAPER = {
    ("mnist", "standard"): (5.4e4, 1.4e2, 17.1),
    ("mnist", "GloRo"): (2.3, 1.9, 0.8),
    ("cifar-10", "standard"): (1.2e7, 1.1e3, 96.2),
    ("cifar-10", "GloRo"): (15.8, 11.0, 3.7),
}
"""Table 6.9 without Tiny-ImageNet, which cannot be had here."""
_REACHED = {"mnist": 0.83, "cifar-10": 0.70}
"""The share of the upper bound that the thesis' search reached on GloRo Nets."""

_Found = dict[tuple[str, str], Any]


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One training per row, those that take longest first."""
    settings: dict[str, dict[str, dict[str, Any]]] = {
        "small": {
            "cifar-10": {"network": "2C2F", "images": 20_000, "epochs": 10, "examples": 128},
            "mnist": {"network": "2C2F", "images": 20_000, "epochs": 10, "examples": 128},
        },
        "paper": {
            "cifar-10": {"network": "6C2F", "images": 50_000, "epochs": 800, "examples": 10_000},
            "mnist": {"network": "4C3F", "images": 60_000, "epochs": 200, "examples": 10_000},
        },
    }
    return [
        Trial.of(measure_steepness, {"data": data, "method": method, "radius": RADII[data], **setting}, seed)
        for data, setting in settings[size].items()
        for method in METHODS
    ]


def report(result: StudyResult) -> PaperTable:
    """Ours beside the thesis'. A global bound is one number; the local one is a mean over test examples."""
    found = {row: next(iter(values(result.records, data=row[0], method=row[1])), None) for row in PAPER}
    cells = [
        Cell(f"{data} at {RADII[data]:.3g}, {method}", column, _estimate(value, column), printed)
        for (data, method), value in found.items()
        for column, printed in zip((*_BOUNDS, "clean accuracy", "VRA"), (*PAPER[data, method], None, None), strict=True)
    ]
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=tuple(_claims(found)),
        provenance=result.provenance,
    )


def _estimate(value: Any, column: str) -> Estimate | None:
    if value is None:
        return None
    if column == "local LB":
        return Estimate(*value[column])
    if column in _BOUNDS:
        return Estimate(value[column], value[column], value[column], 1)
    return Estimate.rate(*value[column])


def _claims(found: _Found) -> list[Claim]:
    says = (
        "The upper bound is several orders of magnitude smaller on GloRo Nets than on standard networks.",
        "On GloRo Nets the lower bound reaches 83 % (MNIST) and 70 % (CIFAR-10) of the upper.",
        "The upper bound is much looser on a standard model.",
        "The local lower bound is essentially zero of the global upper one on standard models, 6–35 % on GloRo Nets.",
    )
    if not all(found.values()):
        return [Claim(sentence, "a trial is missing.", None) for sentence in says]
    smaller = {data: found[data, "standard"]["global UB"] / found[data, "GloRo"]["global UB"] for data in RADII}
    tight = {row: value["global LB"] / value["global UB"] for row, value in found.items()}
    local = {row: value["local LB"][0] / value["global UB"] for row, value in found.items()}
    return [
        Claim(says[0], _list_numbers(smaller, "{:.3g} times"), all(ratio >= 100 for ratio in smaller.values())),
        # A search that ends below says nothing about the bound: it may have missed the steepest place.
        Claim(
            says[1],
            _list_numbers(tight),
            True if all(tight[data, "GloRo"] >= _REACHED[data] for data in RADII) else None,
        ),
        Claim(says[2], _list_numbers(tight), all(tight[data, "standard"] < tight[data, "GloRo"] / 2 for data in RADII)),
        Claim(
            says[3],
            _list_numbers(local),
            all(local[data, "standard"] < 0.01 and local[data, "GloRo"] >= 0.06 for data in RADII),
        ),
    ]


def _list_numbers(numbers: dict[Any, float], form: str = "{:.2%}") -> str:
    names = (key if isinstance(key, str) else ", ".join(key) for key in numbers)
    return (
        "; ".join(f"{name} {form.format(number)}" for name, number in zip(names, numbers.values(), strict=True)) + "."
    )


_TIGHTNESS = declare(
    "study",
    "lipschitz-tightness",
    paper="Leino2022, table 6.9",
    does="upper and lower bounds of global and local Lipschitz constants, of standard networks and GloRo Nets",
)(PaperStudy(trials, report))
