"""Table 9.6, its first row: a convolutional network that tells birds from frogs, mitigated at its penultimate slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from modelkeep.bias.amplification import largest_class
from modelkeep.bias.features import MeasureAsymmetry
from modelkeep.bias.mitigation import ExpertMitigation, ParityMitigation
from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.papers.leino2022.table_9_6 import PAPER, Measured, rows
from modelkeep.papers.result import values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import PaperTable
from modelkeep.study.folder import workdir
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import architectures, datasets

CLASSES = ("bird", "frog")


@trial("leino2022/table-9.6-images", formerly=("modelkeep.bias.studies.table_9_6_images:on_images",))
def on_images(*, seed: int, run: int, architecture: str, images: int, epochs: int) -> Measured:
    """Train on `images` of the 10,000 birds and frogs, and measure each column on the 2,000 test images."""
    train, test = (only(datasets.load("cifar-10", part), CLASSES) for part in ("train", "test"))
    train = train.split(images / len(train), seed=seed + run)[0]  # as many birds as frogs
    return _train_and_fix(train, test, architecture, epochs, seed + run, workdir() / "checkpoint")


def only(data: Data, classes: tuple[str, str]) -> Data:
    """The examples of two classes of a set of many."""
    chosen = [data.of_class(name) for name in classes]
    y = torch.cat([torch.full((len(part),), label) for label, part in enumerate(chosen)])
    return Data(torch.cat([part.x for part in chosen]), y, classes, data.name, bounds=data.bounds)


def _train_and_fix(
    train: Data, test: Data, architecture: str, epochs: int, seed: int, checkpoint: Path | None = None
) -> Measured:
    """The columns of the table for one network, before and after each fix; ℓ1 has no value, as in the thesis."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = getattr(architectures, architecture)(train.input_shape, len(train.classes))
    model = Model(module, input_shape=train.input_shape, classes=train.classes, bounds=train.bounds)
    fit(model, train, cross_entropy, Recipe(epochs=epochs, batch_size=64), seed=seed, checkpoint=checkpoint)
    one = largest_class(test)
    found: Measured = {
        "p*": [float((test.y == one).double().mean())],
        "asymmetry": [MeasureAsymmetry()(model, train, seed=seed).on_data[one].value],
        "B, ℓ1": [],
        "accuracy, ℓ1": [],
    }
    parity, experts = (method(model, train, seed=seed) for method in (ParityMitigation(), ExpertMitigation()))
    found |= {"training B": [experts.before.value], "training accuracy": [experts.accuracy_before.value]}
    for fix, network in (("before", model), ("parity", parity.model), ("experts", experts.model)):
        said = torch.cat([network.predict(x) for x, _ in test.batches(500)])
        found[f"B, {fix}"] = [float(((said == one).double() - (test.y == one).double()).mean())]
        found[f"accuracy, {fix}"] = [float((said == test.y).double().mean())]
    return found


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """A small CNN for a few epochs, or VGG-16 for many; several trainings, as they differ."""
    settings = {
        "small": {"architecture": "small_cnn", "images": 10_000, "epochs": 8},
        "paper": {"architecture": "vgg16_bn", "images": 10_000, "epochs": 50},
    }[size]
    return [Trial.of(on_images, {"run": run, **settings}, seed) for run in range(5)]


def report(result: StudyResult) -> PaperTable:
    """The mean over the trainings, beside the thesis' one."""
    missing = sum(record.state != "done" for record in result.records)
    architecture = result.records[0].parameters["architecture"]
    cells = rows(f"CIFAR-10-binary, {architecture}", values(result.records), PAPER["CIFAR-10-binary"], result)
    if 0 < missing < len(result.records):
        cells = [replace(cell, note=f"{missing} of {len(result.records)} trials are missing") for cell in cells]
    cells += rows("CelebA-attractiveness", [], PAPER["CelebA-attractiveness"], result, note="not available here")
    return PaperTable(study=result.study, cells=tuple(cells), provenance=result.provenance)


_TABLE_9_6_IMAGES = declare(
    "study",
    "bias-table-9.6-images",
    paper="Leino2022, table 9.6 (images)",
    does="bias and accuracy of a bird/frog network before and after mitigation at its penultimate slice",
)(PaperStudy(trials, report))
