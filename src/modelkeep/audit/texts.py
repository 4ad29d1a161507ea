"""What the audit does with a model of texts: words are exchanged, and what moves numbers is left out, in a sentence."""

from __future__ import annotations

from collections.abc import Callable

from modelkeep.attack import HotFlip
from modelkeep.audit.findings import Finding, Section
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.explain import IntegratedGradients
from modelkeep.report.measure import Measure
from modelkeep.report.words import strongest_words, texts_of

_WORDS = 3
_MOST_TEXTS = 64  # each costs some hundred passes
_LEFT_OUT = {
    "shortcuts": ("Does it take shortcuts?", "it transplants places or features from one input to another"),
    "certification": ("What can be proved?", "it bounds what a small change of each number does"),
}


def for_texts(name: str, check: Callable[..., Section]) -> Callable[..., Section]:
    """The check as it is done on texts."""
    if name == "robustness":
        return _exchange_words
    if name == "influence":
        return _explain_words
    if name in _LEFT_OUT:
        title, why = _LEFT_OUT[name]
        return lambda model, data, *, seed: Section(title, f"Not done: {why}, and a text is made of token ids.")
    return check


def _exchange_words(model: Model, data: Data, *, seed: int) -> Section:
    found = HotFlip(words=_WORDS)(model, data.sample(min(_MOST_TEXTS, len(data)), seed), seed=seed)
    lost = found.clean_accuracy.value - found.robust_accuracy.value
    unclear = found.success_rate is None or found.success_rate.n < 10
    changed = "; ".join(str(text) for text in found.texts[:3])
    finding = Finding(
        id="robustness.words-exchanged",
        severity="unclear" if unclear else "high" if lost > 0.3 else "medium" if lost > 0.1 else "low",
        title=f"Up to {_WORDS} other words change many answers"
        if lost > 0.1
        else "A few other words change few answers",
        measured=f"HotFlip: accuracy {found.clean_accuracy} becomes {found.robust_accuracy}. {changed}",
        meaning="A few exchanged words make it wrong. Which wrong answer, was not chosen.",
        remedy="See the words with `modelkeep attack --method hotflip`, and near words with `--method substitution`.",
        weight=lost,
    )
    return Section(
        "Can it be fooled?",
        f"HotFlip exchanges up to {_WORDS} words of a text. What it finds is real; to find nothing proves nothing.",
        (Measure(f"accuracy with {_WORDS} words exchanged", found.robust_accuracy),),
        (finding,),
    )


def _explain_words(model: Model, data: Data, *, seed: int) -> Section:
    chosen = data.sample(min(16, len(data)), seed)
    if chosen.tokenizer is None:
        return Section("What does it look at?", "Not done: without a tokenizer the token ids have no words.")
    texts = texts_of([IntegratedGradients(steps=10)(model, chosen, seed=seed)])
    told = ", ".join(f"{word} {value:+.2g}" for word, value in strongest_words(texts, 0, 10))
    return Section("What does it look at?", f"The words that speak most for or against the predicted class: {told}.")
