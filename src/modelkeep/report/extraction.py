"""The page of an extraction: how good the stolen copy is, what it cost, and, of texts, where it answers otherwise."""

from __future__ import annotations

import torch

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.extract.curve import FidelityCurve
from modelkeep.extract.extraction import Extraction
from modelkeep.extract.target import Target
from modelkeep.report.page import Card, Page, Part, Table
from modelkeep.report.picture import Picture
from modelkeep.report.verdicts import extraction_verdict
from modelkeep.report.words import read_rows

_SEARCHED, _SHOWN = 100, 10  # texts that are asked about again, and of them those that are shown


def extraction_page(
    found: Extraction, drawn: FidelityCurve | None, test: Data, target: Target, *, model_name: str
) -> Page:
    """The page of a stolen copy. Of texts, a few of `test` are asked again, to show where the copy differs."""
    pictures = {
        "extract.png": Picture.of(found.draw(), extraction_verdict(found), "Shares of the test data, with intervals.")
    }
    if drawn is not None:
        pictures["curve.png"] = Picture.of(
            drawn.draw(), "Fidelity against queries", "How good the copy was after fewer queries, with intervals."
        )
    cards = {
        "the copy answers as the target": found.fidelity,
        "accuracy of the copy": found.accuracy,
        "accuracy of the target": found.target_accuracy,
    }
    return Page(
        result=found,
        title=f"Stealing {model_name} through its answers",
        verdict=extraction_verdict(found),
        cards=tuple(Card.of_share(title, share) for title, share in cards.items()),
        parts=(
            Part("In figures", tables=(Table(found.rows()),)),
            *_compare_texts(found.substitute, test, target),
            Part("Pictures", pictures=tuple(pictures.values())),
        ),
        pictures=pictures,
    )


def _compare_texts(copy: Model, test: Data, target: Target) -> tuple[Part, ...]:
    """Texts that the copy answers otherwise than the target; no part where there are none, or no texts."""
    if test.tokenizer is None:
        return ()
    asked = test.first(min(_SEARCHED, len(test)))
    theirs, ours = target.probs(asked.x).cpu(), copy.probs(asked.x).cpu()
    other = (theirs.argmax(dim=1) != ours.argmax(dim=1)).nonzero().flatten().tolist()
    rows = [
        [str(i), _answer(theirs[i], test.classes), _answer(ours[i], test.classes), text]
        for i, text in zip(other[:_SHOWN], read_rows(asked, other[:_SHOWN]), strict=True)
    ]
    lead = f"Of the first {len(asked)} texts, the copy answers {len(asked) - len(other)} as the target does."
    header = ("text", "the target says", "the copy says", "its words")
    return (Part("Where the copy answers otherwise", lead, tables=(Table(rows, header=header),) if rows else ()),)


def _answer(probabilities: torch.Tensor, classes: tuple[str, ...]) -> str:
    best = int(probabilities.argmax())
    return f"{classes[best]} ({float(probabilities[best]):.2f})"
