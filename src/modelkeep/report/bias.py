"""The page of bias: what a model amplifies, what of it could be avoided, and what a mitigated model does instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import not_
from typing import Annotated

import torch
from pydantic import Field

from modelkeep.bias import (
    Amplification,
    Asymmetry,
    MeasureAmplification,
    MeasureAsymmetry,
    Mitigated,
)
from modelkeep.bias.amplification import Explanation
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.explain import ClassScore, IntegratedGradients
from modelkeep.report.measure import percent, points
from modelkeep.report.page import Card, Page, Part, Table
from modelkeep.report.picture import Picture
from modelkeep.report.verdicts import amplification_verdict
from modelkeep.report.words import strongest_words, texts_of

Mitigation = Callable[..., Mitigated]
# Of texts: of how many the wrong ones are taken, how many of those are explained, in how many steps, and words shown.
_SEARCHED, _EXPLAINED, _STEPS, _WORDS = 200, 16, 10, 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Bias(Result, kind="bias"):
    """The amplification on data that the model was not trained on, and the way its features point.

    Where a mitigation was asked for, `mitigated` says what it did on the training data, and `after` what the new model
    amplifies on the data of `before`. Of texts, `words` are those that speak most for the majority, or against it,
    where it was predicted wrongly.
    """

    model_name: str
    data_name: str
    before: Amplification
    features: Asymmetry
    mitigated: Mitigated | None
    after: Amplification | None
    words: Annotated[tuple[tuple[str, float], ...], Field(exclude_if=not_)] = ()

    @property
    def verdict(self) -> str:
        """What was found, in one or two sentences."""
        return amplification_verdict(self.before)

    def rows(self) -> list[tuple[str, str]]:
        rows = [*self.before.rows(), *self.features.rows()]
        if self.words:
            told = ", ".join(f"{word} {value:+.2g}" for word, value in self.words)
            rows.append((f"words that made it '{self.before.majority}' wrongly", told))
        if self.mitigated is not None and self.after is not None:
            rows += [
                ("mitigated by", self.mitigated.rows()[0][1]),
                ("features kept", self.mitigated.rows()[1][1]),
                ("amplification after", str(self.after.amplification)),
                ("accuracy after", str(self.after.accuracy)),
            ]
        return rows


def measure_bias(
    model: Model,
    data: Data,
    *,
    slice: str | None = None,
    train: Data | None = None,
    mitigation: Mitigation | None = None,
    name: str = "",
    seed: int = 0,
) -> Bias:
    """Measure the amplification on `data`; with a `mitigation`, make a model from `train` that amplifies less."""
    with measured(seed, model.fingerprint(), data.fingerprint(), model.warnings) as provenance:
        before = MeasureAmplification(slice=slice)(model, data, seed=seed)
        features = MeasureAsymmetry(slice=slice)(model, data, seed=seed)
        better = None
        if train is not None and mitigation is not None:
            better = mitigation(model, train, seed=seed)
        return Bias(
            provenance=provenance(),
            model_name=name or type(model.module).__name__,
            data_name=data.name,
            before=before,
            features=features,
            mitigated=better,
            after=MeasureAmplification(slice=slice)(better.model, data, seed=seed) if better is not None else None,
            words=_misleading_words(model, data, before.majority, seed),
        )


def _misleading_words(model: Model, data: Data, majority: str, seed: int) -> tuple[tuple[str, float], ...]:
    """The words that count most for the majority in texts that were taken for it and are not; none of other data."""
    if data.tokenizer is None or data.nest is None:
        return ()
    drawn = data.sample(min(_SEARCHED, len(data)), seed)
    wanted = model.class_index(majority)
    wrong = torch.nonzero((model.predict(drawn.x).cpu() == wanted) & (drawn.y != wanted)).flatten()[:_EXPLAINED]
    if not len(wrong):
        return ()
    explainer = IntegratedGradients(steps=_STEPS, quantity=ClassScore(majority))
    texts = texts_of([explainer(model, drawn.take(wrong), seed=seed)])
    return tuple(strongest_words(texts, 0, _WORDS))


def bias_page(found: Bias) -> Page:
    """The page of a model's bias."""
    before, after, pictures = found.before, found.after, _draw(found)
    title = f"predicted in excess of '{before.majority}'"
    cards, lead = [Card.of_difference(title, before.amplification)], ""
    if before.explanation is not None:
        cards.append(Card.of_difference("of it unavoidable, if features are Gaussian", before.explanation.unavoidable))
        cards.append(Card.of_difference("of it avoidable", before.explanation.avoidable))
        lead = _explain(before.explanation)
    parts = []
    if after is not None and found.mitigated is not None:
        cards.append(Card.of_difference("after mitigation", after.amplification))
        kept = found.mitigated.kept
        rows = {
            title: (before.amplification, after.amplification),
            "distance of the shares": (before.distance, after.distance),
            "accuracy": (before.accuracy, after.accuracy),
        }
        parts.append(
            Part(
                "Before and after",
                f"{found.mitigated.method} at '{found.mitigated.head}', chosen on the training data: {int(kept.sum())} "
                f"of {len(kept)} features are kept.",
                tables=(
                    Table(
                        [
                            [name, *(cell for e in pair for cell in _cells(e, name == title))]
                            for name, pair in rows.items()
                        ],
                        header=("", "before", "95 % interval", "after", "95 % interval"),
                    ),
                ),
            )
        )
    return Page(
        result=found,
        title=f"The bias of {found.model_name} on {found.data_name}",
        verdict=found.verdict,
        lead=lead,
        cards=tuple(cards),
        parts=(*parts, *_part_of_words(found), Part("Pictures", pictures=tuple(pictures.values()))),
        pictures=pictures,
        repeats=(before,) if found.mitigated is None else (before, found.mitigated),
    )


def _part_of_words(found: Bias) -> tuple[Part, ...]:
    if not found.words:
        return ()
    lead = (
        f"Texts that are not '{found.before.majority}' and were taken for it, explained at the embedding: the words "
        "that speak for it have positive numbers, those against it negative ones."
    )
    rows = [[word, f"{value:+.3f}"] for word, value in found.words]
    return (Part("Words that mislead", lead, tables=(Table(rows, header=("word", "mean attribution")),)),)


def _explain(explanation: Explanation) -> str:
    check, unavoidable = explanation.check, explanation.unavoidable.value
    doubt = "" if check.low <= unavoidable <= check.high else ", so they are not, and the split is only a guide"
    return (
        "Even the best classifier leans towards the larger class where the features say little. The unavoidable part "
        f"is what it would show if the features at '{explanation.slice}' were Gaussian with independent noise. On this "
        f"data such a classifier shows {points(check.value)} points ({points(check.low)} to {points(check.high)})"
        f"{doubt}."
    )


def _cells(estimate: Estimate, difference: bool) -> tuple[str, str]:
    if difference:
        return f"{points(estimate.value)} points", f"{points(estimate.low)} to {points(estimate.high)}"
    return percent(estimate.value), f"{percent(estimate.low)} to {percent(estimate.high)}"


def _draw(found: Bias) -> dict[str, Picture]:
    """The pictures by the names of their files."""
    pictures = {
        "bias.png": Picture.of(
            found.before.draw(),
            f"Shares of the labels and of the predictions. {found.verdict}",
            "How often each class occurs, and how often it is predicted. The whisker is the 95 % interval.",
        ),
        "bias-features.png": Picture.of(
            found.features.draw(),
            "Shares of the features that point towards each class",
            f"Of the features at '{found.features.slice}', the share whose mean is larger in the class than outside "
            "it. Where most point one way, training tends to lean that way.",
        ),
    }
    if found.after is not None:
        pictures["bias-after.png"] = Picture.of(
            found.after.draw(),
            "Shares of the labels and of the mitigated model's predictions",
            "The same for the mitigated model.",
        )
    return pictures
