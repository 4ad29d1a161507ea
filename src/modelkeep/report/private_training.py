"""The page of a private training: what is guaranteed, what it costs, and what one run with canaries shows."""

from __future__ import annotations

from modelkeep.core.results import Estimate
from modelkeep.privacy import AuditedEpsilon, PrivatelyTrained
from modelkeep.report.measure import percent
from modelkeep.report.page import Card, Note, Page, Part, Table
from modelkeep.report.picture import Picture


def private_training_page(
    found: PrivatelyTrained, *, before: Estimate, audit: AuditedEpsilon | None, model_name: str, data_name: str
) -> Page:
    """The page of a private training; `before` is the accuracy of the model that was given, on the same data."""
    pictures = {
        "private-epsilon.png": Picture.of(found.draw(), "ε over the steps", "What each further step costs."),
        "private-training.png": Picture.of(
            found.training.draw(), "Loss and accuracy during training", "How the training went. This is not private."
        ),
    }
    parts = [Part("The guarantee", tables=(Table(found.rows()),))]
    if audit is not None:
        pictures["private-audit.png"] = Picture.of(
            audit.draw(), "Proved ε against the number of guesses", "What guesses about canaries prove."
        )
        parts.append(Part("One run with canaries", tables=(Table(audit.rows()),)))
    parts.append(Part("Pictures", pictures=tuple(pictures.values())))
    cards = [Card("ε", f"{found.epsilon:.3g}", f"at δ = {found.delta:.2g}"), Card.of_share("accuracy, before", before)]
    if found.accuracy is not None:
        cards.append(Card.of_share("accuracy, private", found.accuracy))
    return Page(
        result=found,
        title=f"{model_name}, trained privately on {data_name}",
        verdict=private_training_verdict(found, before, audit),
        cards=tuple(cards),
        notes=_notes(audit),
        notes_title="What to know",
        parts=tuple(parts),
        pictures=pictures,
        repeats=(found,) if audit is None else (found, audit),
    )


def private_training_verdict(found: PrivatelyTrained, before: Estimate, audit: AuditedEpsilon | None) -> str:
    """What is guaranteed and what it costs, in a few sentences."""
    told = (
        f"The weights are differentially private: ε = {found.epsilon:.3g} at δ = {found.delta:.2g}. No membership "
        f"attack on them has an advantage above {found.advantage_bounds[1]:.3g}."
    )
    if found.accuracy is not None:
        told += f" Accuracy goes from {percent(before.value)} to {percent(found.accuracy.value)}."
    if audit is not None and audit.contradicted:
        told += f" But one run with canaries proves an ε above {audit.epsilon.low:.3g}: the guarantee does not hold."
    elif audit is not None:
        told += f" One run with canaries proves an ε above {audit.epsilon.low:.3g}, and does not contradict it."
    return told


def _notes(audit: AuditedEpsilon | None) -> tuple[Note, ...]:
    notes = [
        Note(
            "low",
            "keep",
            "Give the model away, not this page",
            "The guarantee holds for the weights. The loss during the training and the seed are not covered: who knows "
            "the seed knows the noise.",
            "Keep this folder but for the model's file.",
        ),
        Note(
            "low",
            "choice",
            "Settings that were chosen on the same data cost ε, too",
            "Each further training on the same records adds to what they give away, also one that was only tried. "
            "So does a mean or deviation of the input that was computed on them.",
            "Choose settings on public data, or add up the ε of all trainings.",
        ),
    ]
    if audit is not None and audit.contradicted:
        text = f"The accounting says {audit.claimed:.3g}, and the canaries prove more than {audit.epsilon.low:.3g}."
        remedy = "Do not give the model away. Report the network and the settings."
        notes.insert(0, Note("high", "refuted", "The guarantee does not hold", text, remedy))
    return tuple(notes)
