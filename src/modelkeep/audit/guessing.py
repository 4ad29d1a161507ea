"""Is the accuracy that of a guess? Against one class in so many, and against the same answer for every input."""

from __future__ import annotations

from collections.abc import Sequence

from modelkeep.audit.findings import Finding
from modelkeep.core.results import Estimate
from modelkeep.report.measure import percent

# With fewer examples the largest class is an accident of the sample, such as one photograph of each class.
_FEWEST_OF_LARGEST = 5
# A model that closes at most this share of the gap between a guess and perfection has not learned its task.
_NEGLIGIBLE_GAIN = 0.1
_CHECK = (
    "Check that the weights were loaded, and that the preprocessing and the order of the classes are those of the "
    "training."
)


def judge_guessing(accuracy: Estimate, counts: Sequence[int], classes: Sequence[str]) -> Finding | None:
    """What is wrong where the accuracy is that of a guess; None where it is better.

    `counts` are the examples of each of the `classes`. A guess is right on one in `len(classes)`; the constant answer
    is right on the share of the largest class.
    """
    chance = 1 / len(classes)
    largest = max(range(len(classes)), key=lambda label: counts[label])
    constant = counts[largest] / accuracy.n if counts[largest] >= _FEWEST_OF_LARGEST else 0.0
    measured = (
        f"It is right on {percent(accuracy.value)} of {accuracy.n} examples (95 % interval {percent(accuracy.low)} to "
        f"{percent(accuracy.high)}). Guessing one of {len(classes)} classes is right on {percent(chance)}"
        + (f"; always answering '{classes[largest]}' is right on {percent(constant)}." if constant else ".")
    )
    if accuracy.low > max(chance, constant):
        return None
    if _may_be_better(accuracy, max(chance, constant)):
        return Finding(
            id="accuracy.unclear",
            severity="unclear",
            title="Too few examples to tell it from guessing",
            measured=measured,
            meaning="It may have learned its task or not.",
            remedy="Give more examples.",
        )
    if accuracy.high < chance:
        return Finding(
            id="accuracy.worse-than-guessing",
            severity="high",
            title="It is worse than guessing",
            measured=measured,
            meaning="A model without any knowledge is right more often. Most likely its classes are in another order "
            "than those of the data.",
            remedy=_CHECK,
            weight=2.0,
        )
    if accuracy.low <= chance:
        return Finding(
            id="accuracy.no-better-than-guessing",
            severity="high",
            title="It is no better than guessing",
            measured=measured,
            meaning="The other findings say little about a model that has not learned its task.",
            remedy=_CHECK,
            weight=2.0,
        )
    compared = "worse" if accuracy.high < constant else "no better"
    return Finding(
        id="accuracy.no-better-than-the-largest-class",
        severity="high",
        title=f"It is {compared} than always answering '{classes[largest]}'",
        measured=measured,
        meaning="A constant answer is right at least as often. Where the rare classes matter more this may be "
        "intended; then the recall of each class says more than the accuracy.",
        remedy=f"{_CHECK} Weight the rare classes less if accuracy is what you need.",
        weight=2.0,
    )


def _may_be_better(accuracy: Estimate, guess: float) -> bool:
    """Whether the examples leave it open: more were right than by a guess, and it could be many more."""
    return accuracy.value > guess and (accuracy.high - guess) / (1 - guess) > _NEGLIGIBLE_GAIN
