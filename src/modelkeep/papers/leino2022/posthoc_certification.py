"""What can be proved of a network that was not trained for it? Table 6.7's "standard" and RS rows, and 6.8b's cost.

A 2C2F net with ReLUs is trained plainly on MNIST. The Lipschitz bound proves nearly nothing of it; PGD says how much
there could be to prove at most; randomized smoothing proves a good deal, statistically, of another classifier, and
much more of a network that was trained under its noise. The thesis does not say with which noise: here sigma is 0.25
for the radius 0.3 and 0.75 for 1.58.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch

from modelkeep.attack import PGD
from modelkeep.certify.certification import Certify
from modelkeep.certify.gloro import GloRoNet
from modelkeep.certify.smoothing import NoisyTraining, Smooth
from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.papers.result import Claim, above, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.folder import workdir
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Objective, Recipe, cross_entropy, evaluate, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import cnn_2c2f

_SIGMAS = {0.3: 0.25, 1.58: 0.75}
PAPER: dict[tuple[str, float], dict[str, float]] = {
    ("standard", 0.3): {"clean": 0.992, "PGD": 0.969, "VRA": 0.0},
    ("RS", 0.3): {"clean": 0.988, "VRA": 0.974},
    ("standard", 1.58): {"clean": 0.990, "PGD": 0.454, "VRA": 0.0},
    ("RS", 1.58): {"clean": 0.990, "VRA": 0.591},
}
SECONDS = {"Lipschitz": 0.4, "smoothing": 36_845.5}
"""Table 6.8b, for the 10,000 test images of CIFAR-10; its first is a GloRo Net's, whose check is the same."""


@trial("leino2022/posthoc", formerly=("modelkeep.certify.studies.posthoc:plain",))
def certify_plain(
    *, seed: int, radius: float, images: int, epochs: int, attacked: int, inputs: int, samples: int
) -> dict[str, Any]:
    """Train plainly; what PGD breaks, what the Lipschitz bound proves, and what smoothing proves without more ado."""
    model, test = _train(images, cross_entropy, epochs, seed)
    standing = PGD(norm="l2", radius=radius, steps=100)(model, test.first(attacked), seed=seed).robust_accuracy
    net = GloRoNet(model, radius)
    began = perf_counter()
    net.predict(test.x)
    seconds = perf_counter() - began
    return {
        "clean": _count(evaluate(model, test)[1]),
        "PGD": _count(standing),
        "VRA": _count(Certify(radius=radius)(model, test).verified),
        "seconds for the constants": net.bounds.provenance.seconds,
        "seconds for 10,000": 10_000 * seconds / len(test),
        "smoothed": _smooth(model, test.first(inputs), radius, samples, seed),
    }


@trial("leino2022/posthoc-smoothing", formerly=("modelkeep.certify.studies.posthoc:noisy",))
def certify_noisy(*, seed: int, radius: float, images: int, epochs: int, inputs: int, samples: int) -> dict[str, Any]:
    """Train under noise; what smoothing with it proves."""
    model, test = _train(images, NoisyTraining(_SIGMAS[radius]), epochs, seed)
    return _smooth(model, test.first(inputs), radius, samples, seed)


def _train(images: int, objective: Objective, epochs: int, seed: int) -> tuple[Model, Data]:
    """The network, and the data to test it on."""
    train = datasets.load("mnist", "train").first(images)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = cnn_2c2f(train.input_shape, len(train.classes), activation="relu")
    model = Model(module, input_shape=train.input_shape, classes=train.classes, bounds=train.bounds)
    fit(model, train, objective, Recipe(epochs=epochs), seed=seed, checkpoint=workdir() / "training")
    return model, datasets.load("mnist", "test")


def _smooth(model: Model, data: Data, radius: float, samples: int, seed: int) -> dict[str, Any]:
    found = Smooth(sigma=_SIGMAS[radius], samples=samples)(model, data, seed=seed)
    return {
        "clean": _count(found.certified_accuracy()),
        "VRA": _count(found.certified_accuracy(radius)),
        "seconds for 10,000": 10_000 * found.provenance.seconds / len(data),
        "passes": found.cost,
    }


def _count(estimate: Estimate) -> list[int]:
    return [round(estimate.value * estimate.n), estimate.n]


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """For each radius a network trained plainly and one trained under noise."""
    settings = {
        "small": {"images": 10_000, "epochs": 6, "inputs": 200, "samples": 1_000},
        "paper": {"images": 60_000, "epochs": 100, "inputs": 500, "samples": 100_000},
    }[size]
    attacked = {"small": 500, "paper": 10_000}[size]
    return [
        *(Trial.of(certify_plain, {"radius": radius, **settings, "attacked": attacked}, seed) for radius in _SIGMAS),
        *(Trial.of(certify_noisy, {"radius": radius, **settings}, seed) for radius in _SIGMAS),
    ]


def report(result: StudyResult) -> PaperTable:
    """The rows of table 6.7 that certify after the fact, and what certifying 10,000 inputs took (table 6.8b)."""
    cells, claims = [], []
    for radius in _SIGMAS:
        found: dict[str, Any] = {}
        for record in result.records:
            if record.parameters["radius"] == radius:
                (value,) = values([record]) or [None]
                found["RS" if record.name.endswith("smoothing") else "standard"] = value
        standard, trained = found.get("standard"), found.get("RS")
        rows = {"standard": standard, "standard, then smoothed": standard and standard["smoothed"], "RS": trained}
        for name, value in rows.items():
            printed = PAPER.get((name, radius), {})
            cells += [
                Cell(f"{name}, ε={radius:g}", column, _rate(value, column), printed.get(column))
                for column in ("clean", "PGD", "VRA")
                if column in printed or (value and column in value)
            ]
        for name, value in (("Lipschitz", standard), ("smoothing", trained)):
            taken = None if value is None else _seconds(value["seconds for 10,000"])
            note = "" if value is None else _cost(value)
            cells.append(Cell(f"{name}, ε={radius:g}", "seconds for 10,000 inputs", taken, SECONDS[name], note))
        claims += [
            _claim_no_certificates(radius, _rate(standard, "VRA")),
            above(
                "Smoothing needs training under its noise.",
                f"VRA at {radius:g} with and without",
                _rate(trained, "VRA"),
                _rate(standard and standard["smoothed"], "VRA"),
            ),
        ]
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=tuple(claims),
        provenance=result.provenance,
    )


def _rate(value: dict[str, Any] | None, column: str) -> Estimate | None:
    return Estimate.rate(*value[column]) if value and column in value else None


def _cost(value: dict[str, Any]) -> str:
    if "passes" in value:
        return f"{value['passes']:,.0f} passes per input"
    return f"one pass per input, and once {value['seconds for the constants']:.1f} s for the constants"


def _seconds(seconds: float) -> Estimate:
    return Estimate(seconds, seconds, seconds, 1)  # one run of one machine


def _claim_no_certificates(radius: float, found: Estimate | None) -> Claim:
    says = f"Standard training does not lead to certified predictions (VRA 0.0 % at {radius:g})."
    if found is None:
        return Claim(says, "a trial is missing.", None)
    return Claim(says, f"{found}.", found.high < 0.01)


POSTHOC = declare(
    "study",
    "posthoc",
    paper="Leino2022, tables 6.7 (standard, RS) and 6.8b",
    does="what can be proved of a network that was not trained for it: by its Lipschitz bound, and by smoothing",
)(PaperStudy(trials, report))
