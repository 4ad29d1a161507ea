"""Table 4.1: what a classifier's features are worth to a MAC network after standard and after robust training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from modelkeep.attack import PGD
from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.harden.adversarial import PGDTraining
from modelkeep.harden.denoising import with_denoising
from modelkeep.papers.result import Claim, above, values
from modelkeep.papers.saha2020.question_answering import Features, FromBank, FromPicture, Quiz, close_ups
from modelkeep.papers.saha2020.scenes import ANSWERS, FAMILIES, LONGEST, VOCABULARY
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.device import best_device
from modelkeep.study.folder import workdir
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import ExponentialAfterHalf, Linear, Recipe, cross_entropy, fit
from modelkeep.zoo import architectures
from modelkeep.zoo.architectures.mac import MAC

Count = tuple[int, int]
"""How many of how many."""

SHALLOW, DEEP, ADVERSARIAL, DENOISED = "standard, shallow", "standard", "adversarial", "adversarial + denoising"
STANDARD = (SHALLOW, DEEP)
QUESTION_ONLY = "question only"
PAPER = {SHALLOW: 0.989, DEEP: 0.990, ADVERSARIAL: 0.4724, DENOISED: 0.9072}
"""The thesis' rows: ResNet101, ResNet152, ResNet152 Baseline and ResNet152 Denoise."""
ROWS = (*PAPER, QUESTION_ONLY)
OVERALL, CLEAN, ATTACKED = "all questions", "classifier, clean", "classifier, attacked"
BEFORE, AFTER = "the attacked questions, before", "background attacked"


@trial("saha2020/table-4.1", formerly=("modelkeep.harden.studies.table_4_1:answered",))
def train_and_answer(
    *,
    seed: int,
    features: str,
    network: str,
    arguments: dict[str, int],
    place: str,
    denoise: list[str],
    pixels: int,
    pictures: int,
    classifier_epochs: int,
    radius: float,
    attack_steps: int,
    scenes: int,
    rounds: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    width: int,
    steps: int,
    attacked: int,
) -> dict[str, Count]:
    """Train the classifier, freeze it, train a MAC network on its features: how often each of them is right."""
    device = best_device()
    learned, fresh = (close_ups(n, pixels, seed * 4 + i) for i, n in enumerate((pictures, 500)))
    train, test = (Quiz(n, rounds, pixels, seed * 4 + 2 + i) for i, n in enumerate((scenes, max(scenes // 8, 10))))
    found: dict[str, Count] = {}
    classifier = _build(network, arguments, learned, seed, device)
    if features == DENOISED:
        classifier = with_denoising(classifier, denoise, seed=seed)
    if features != QUESTION_ONLY:
        objective = cross_entropy if features in STANDARD else PGDTraining(radius=radius, steps=attack_steps)
        recipe = Recipe(epochs=classifier_epochs, batch_size=64, learning_rate=Linear(4e-3, 0.0))
        fit(classifier, learned, objective, recipe, seed=seed, checkpoint=workdir() / "classifier")
        strong = PGD(radius=radius, steps=4 * attack_steps)(classifier, fresh, seed=seed)
        found[CLEAN], found[ATTACKED] = _count(strong.clean_accuracy), _count(strong.robust_accuracy)
    # The same network on the larger pictures of whole scenes: it ends in a mean over all places.
    on_scenes = Model(
        classifier.module, input_shape=(3, pixels, pixels), classes=classifier.classes, bounds=(0.0, 1.0), device=device
    )
    seen = Features(on_scenes, place, train.pictures[:1000].to(device))
    banks = [seen.of(quiz.pictures, device) for quiz in (train, test)]
    if features == QUESTION_ONLY:
        banks = [torch.zeros_like(bank) for bank in banks]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        mac = MAC(
            channels=banks[0].shape[1], vocabulary=len(VOCABULARY), answers=len(ANSWERS), width=width, steps=steps
        )
    answering, examined = (
        Model(FromBank(bank, mac), input_shape=(1 + LONGEST,), classes=ANSWERS, bounds=None, device=device)
        for bank in banks
    )
    recipe = Recipe(
        epochs=epochs, batch_size=batch_size, learning_rate=ExponentialAfterHalf(learning_rate, learning_rate / 20)
    )
    fit(answering, train.data(), cross_entropy, recipe, seed=seed, checkpoint=workdir() / "mac")
    found |= _by_family(examined, test)
    if attacked and features != QUESTION_ONLY:
        asked, background = test.with_pictures(attacked)
        whole = Model(FromPicture(seen, mac), input_shape=asked.input_shape, classes=ANSWERS, device=device)
        moved = PGD(radius=radius, steps=4 * attack_steps, mask=background)(whole, asked, seed=seed)
        found[BEFORE], found[AFTER] = _count(moved.clean_accuracy), _count(moved.robust_accuracy)
    return found


def _build(network: str, arguments: dict[str, int], data: Data, seed: int, device: str) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = getattr(architectures, network)(data.input_shape, len(data.classes), **arguments)
    return Model(module, input_shape=data.input_shape, classes=data.classes, bounds=data.bounds, device=device)


def _by_family(model: Model, quiz: Quiz) -> dict[str, Count]:
    data = quiz.data()
    right = torch.cat([(model.predict(x).cpu() == y) for x, y in data.batches(512)]).tolist()
    found = {OVERALL: (sum(right), len(right))}
    for family in FAMILIES:
        own = [was for was, question in zip(right, quiz.questions, strict=True) if question.family == family]
        found[family] = (sum(own), len(own))
    return found


def _count(rate: Estimate) -> Count:
    return round(rate.value * rate.n), rate.n


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per row: the thesis' four, and a network that never sees a picture."""
    return [Trial.of(train_and_answer, {"features": row, **_settings(size, row)}, seed) for row in ROWS]


def _settings(size: Size, row: str) -> dict[str, Any]:
    if size == "small":
        return {
            "network": "small_resnet",
            "arguments": {"blocks": 1 if row == SHALLOW else 2, "width": 8},
            "place": "section3.block1",
            "denoise": ["section2", "section3.block1"],
            "pixels": 32,
            "pictures": 2000,
            "classifier_epochs": 12,
            "radius": 8 / 255,
            "attack_steps": 3,
            "scenes": 2500,
            "rounds": 2,
            "epochs": 10,
            "batch_size": 64,
            "learning_rate": 2e-3,
            "width": 48,
            "steps": 3,
            "attacked": 200,
        }
    return {
        "network": "small_resnet" if row == SHALLOW else "resnet50",
        "arguments": {"blocks": 3, "width": 64} if row == SHALLOW else {},
        "place": "section2",
        "denoise": ["section1", "section2", "section3", "section4"],
        "pixels": 112,
        "pictures": 50_000,
        "classifier_epochs": 30,
        "radius": 8 / 255,
        "attack_steps": 10,
        "scenes": 20_000,
        "rounds": 7,
        "epochs": 25,
        "batch_size": 64,
        "learning_rate": 1e-4,
        "width": 512,
        "steps": 12,
        "attacked": 1000,
    }


def report(result: StudyResult) -> PaperTable:
    """Ours beside the thesis', which has only the accuracy on all questions."""
    rates = {record.parameters["features"]: _rates(values([record])) for record in result.records}
    columns = [OVERALL, *FAMILIES, CLEAN, ATTACKED, BEFORE, AFTER]
    cells = [
        Cell(row, column, found.get(column), PAPER.get(row) if column == OVERALL else None)
        for row, found in rates.items()
        for column in columns
        if column in found or (column == OVERALL and not found)
    ]
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=tuple(_claims(rates)),
        provenance=result.provenance,
    )


def _rates(found: list[dict[str, list[int]]]) -> dict[str, Estimate]:
    return {column: Estimate.rate(*counts) for value in found for column, counts in value.items()}


def _claims(rates: dict[str, dict[str, Estimate]]) -> list[Claim]:
    def of(row: str, column: str = OVERALL) -> Estimate | None:
        return rates.get(row, {}).get(column)

    return [
        above(
            "The pictures matter (ours, to read the others by).",
            "all questions, with standard features and with none",
            of(DEEP),
            of(QUESTION_ONLY),
        ),
        above(
            "Robustness and accuracy are at odds: features after adversarial training are worth less.",
            "all questions, after standard and after adversarial training",
            of(DEEP),
            of(ADVERSARIAL),
        ),
        above(
            "Denoising recovers most of what adversarial training loses.",
            "all questions, adversarial with denoising and without",
            of(DENOISED),
            of(ADVERSARIAL),
        ),
        above(
            "Adversarial training makes the classifier robust.",
            "the classifier under attack, after adversarial and after standard training",
            of(ADVERSARIAL, ATTACKED),
            of(DEEP, ATTACKED),
        ),
        above(
            "Noise in the background alone fools the network that answers (Chaturvedi et al.).",
            "standard features, before and under the attack",
            of(DEEP, BEFORE),
            of(DEEP, AFTER),
        ),
        above(
            "With a robust classifier's features the network that answers is still very vulnerable.",
            "adversarial with denoising, before and under the attack on the background",
            of(DENOISED, BEFORE),
            of(DENOISED, AFTER),
        ),
    ]


TABLE_4_1 = declare(
    "study",
    "robust-features",
    paper="Saha2020, table 4.1",
    does="a MAC network's accuracy with features of a standard, an adversarially trained and a denoising classifier",
)(PaperStudy(trials, report))
