"""Does a small part of the input decide by itself?"""

from __future__ import annotations

from dataclasses import replace

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section, Severity
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.explain import FindShortcuts, Shortcuts, Suspect
from modelkeep.explain.quality.transplants import SMALLEST
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

# Counted on networks of ours: attributions of an example, its answers with other places and with its own given away;
# of pictures that are searched for other kinds than squares, also those.
_PASSES, _PASSES_LARGE = 40, 80


@declare("check", "shortcuts", access="weights", paper="Leino2022, chapter 4")
class CheckShortcuts:
    """Marks that stand in for a class, and parts or features that decide alone, tested by transplanting them."""

    examples: int = setting("Examples to look at, drawn by the seed.", default=256, at_least=1)

    def cost(self, model: Model, data: Data) -> Cost:
        """The passes of the examples that it looks at."""
        large = len(data.input_shape) == 3 and min(data.input_shape[1:]) >= SMALLEST
        return Cost((_PASSES_LARGE if large else _PASSES) * min(self.examples, len(data)))

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Search a sample of the data."""
        data = data.sample(min(self.examples, len(data)), seed)
        found = FindShortcuts(examples=len(data))(model, data, seed=seed)
        findings = [
            finding
            for verdict, tell in (("planted", _planted_finding), ("decisive", _decisive_finding))
            if (suspects := [suspect for suspect in found.found if suspect.verdict == verdict])
            for finding in [tell(suspects)]
        ]
        measures, pictures = [], []
        if found.suspects:
            worst = found.suspects[0]
            measures = [
                Measure(f"others taken for '{worst.name}' with its {worst.region.name}", worst.turned),
                Measure(f"others taken for it with {_control(worst)}", worst.turned_control),
                Measure(f"'{worst.name}' lost without its {worst.region.name}", worst.lost),
                Measure(_lost_control(worst), worst.lost_control),
            ]
        if found.found:
            pictures = [_picture(found)]
        return Section(
            "Does a small part decide?",
            "For each class, influence and the data say which parts set its examples apart. The content of each is "
            "then given to examples of other classes, and taken from its own. A mark that this data lacks cannot be "
            "found. "
            f"Looked for: {found.kinds or 'nothing'}. Not looked for: {', '.join(found.not_searched) or 'nothing'}.",
            tuple(measures),
            tuple(
                replace(finding, value=measures[0] if measures else None, access="weights", evidence=tuple(pictures))
                for finding in findings
            )
            or (replace(_empty_finding(found), value=measures[0] if measures else None, access="weights"),),
        )


def _elsewhere(suspect: Suspect) -> bool:
    """Whether its controls are other places of the same size; else they are the same part of other classes."""
    return suspect.region.kind in ("square", "feature")


def _control(suspect: Suspect) -> str:
    return "other places of that size" if _elsewhere(suspect) else "that of other classes"


def _lost_control(suspect: Suspect) -> str:
    return "lost without other places of that size" if _elsewhere(suspect) else "other classes changed without theirs"


def _effect(suspect: Suspect) -> str:
    name, part = suspect.name, suspect.region.name
    return (
        f"With {part} of a '{name}', {percent(suspect.turned.value)} of the examples of other classes (at least "
        f"{percent(suspect.turned.low)}) are taken for '{name}'; with {_control(suspect)} at most "
        f"{percent(suspect.turned_control.high)} are. Without it, {percent(suspect.lost.value)} of '{name}' (at least "
        f"{percent(suspect.lost.low)}) are no longer recognised."
    )


def _also(suspects: list[Suspect]) -> str:
    others = [f"{s.region.name} for '{s.name}'" for s in suspects[1:]]
    return f" So do {'; '.join(others[:5])}{' and more' * (len(others) > 5)}." if others else ""


def _where(suspect: Suspect) -> str:
    """`at rows 0–1`, `in the frame of 1 pixel`: how the region follows a noun."""
    kind, name = suspect.region.kind, suspect.region.name
    return f"at {name}" if kind in ("square", "line") else f"in {name}"


def _planted_finding(suspects: list[Suspect]) -> Finding:
    worst = suspects[0]
    most = worst.turned.low > 0.5 or worst.lost.low > 0.5
    return Finding(
        id="shortcuts.planted-mark",
        severity="high" if most else "medium",
        title=f"A mark {_where(worst)} stands in for '{worst.name}'",
        measured=_effect(worst) + _also(suspects),
        meaning="No other class comes near this content, and the model goes by it. Where the mark is missing, or "
        "an attacker adds it, it may be wrong.",
        remedy=f"Look at that in the training examples of '{worst.name}': a watermark, a frame, a poisoned "
        "sample? Remove or cover it, train again, and measure on data without it.",
        weight=max(worst.turned.value, worst.lost.value),
    )


def _decisive_finding(suspects: list[Suspect]) -> Finding:
    worst = suspects[0]
    severity: Severity
    if worst.region.feature is not None:
        name, severity, title = "one-feature", "low", f"The feature {worst.region.name} alone decides"
        meaning = (
            "A measurement may rightly decide alone. It is a leak if it is only known once the answer is, and a "
            "weakness if an attacker can choose it."
        )
        remedy = "Ask whether it is known, and can be trusted, at the time of the answer. If not, train without it."
    else:
        name, severity = "one-place", "medium"
        title = f"The small part {_where(worst)} alone decides for '{worst.name}'"
        meaning = (
            "Natural contents vary there too, so it may be the very thing that tells the classes apart; or a mark "
            "that is hard to see."
        )
        remedy = "Look at the picture below. If the place has nothing to do with the class, cover it and train again."
    return Finding(
        id=f"shortcuts.{name}-decides",
        severity=severity,
        title=title,
        measured=_effect(worst) + _also(suspects),
        meaning=meaning,
        remedy=remedy,
        weight=worst.turned.value,
    )


def _empty_finding(found: Shortcuts) -> Finding:
    if not found.suspects:
        return Finding(
            id="shortcuts.unclear",
            severity="unclear",
            title="Too few examples to look for places that decide by themselves",
            measured=f"None of the classes has enough examples among {found.examples} that the model gets right.",
            meaning="A mark that stands in for a class could be there.",
            remedy="Look at the accuracy first, then give more examples (--examples).",
        )
    worst = found.suspects[0]
    missing = f" {len(found.too_few)} classes had too few examples to be looked at." if found.too_few else ""
    return Finding(
        id="shortcuts.none-found",
        severity="good",
        title="None of the parts that were looked for decides for a class by itself",
        measured=_effect(worst) + " That is the strongest." + missing + f" Looked for: {found.kinds}.",
        partial=missing.strip(),
        meaning="What these parts show varies and occurs in other classes too, as in natural data. Not looked for: "
        f"{', '.join(found.not_searched)}; and a mark that is not in this data cannot be seen.",
        remedy="Nothing. Look at data from another source, too.",
    )


def _picture(found: Shortcuts) -> Picture:
    worst = found.suspects[0]
    if worst.region.feature is not None:
        alt = "How many examples turn into each class"
        caption = "How many examples of other classes turn into the class when they get one feature of it."
    else:
        alt = "Examples before and after the transplant"
        caption = (
            f"Examples of other classes (above), and the same with {worst.region.name} taken from a '{worst.name}' "
            f"(below{', outlined' if worst.region.standing else ''}), with what the model says. Those that turn come "
            "first."
        )
    return Picture(plots.data_uri(found.draw()), alt, caption)
