"""Does it predict some classes more often than they occur?"""

from __future__ import annotations

from dataclasses import replace

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section
from modelkeep.bias import Amplification, MeasureAmplification
from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture
from modelkeep.report.verdicts import amplification_verdict

TITLE = "Does it amplify bias?"
LEAD = (
    "Bias amplification is the share of predictions that a model moves from some classes to others, compared with how "
    "often the classes occur. Errors without a direction move a few by chance."
)
# A smaller distance does not matter, however sure it is; a wider interval says nothing.
MATTERS, DOUBT = 0.02, 0.1


@declare("check", "amplification", access="weights", paper="Leino2022, definition 9.1")
class CheckAmplification:
    """The distance between what occurs and what is predicted, and whether it has a direction."""

    def cost(self, model: Model, data: Data) -> Cost:
        """One pass of each example."""
        return Cost(len(data))

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Measure on all data."""
        if (data.y == data.y[0]).all():
            return Section(TITLE, LEAD, findings=(_one_class(data),))
        found = MeasureAmplification()(model, data, seed=seed)
        picture = Picture.of(
            found.draw(),
            "Shares of the labels and of the predictions",
            "How often each class occurs, and how often it is predicted. The whisker is the 95 % interval.",
        )
        measure = Measure("predictions moved from some classes to others", found.distance)
        measures = [measure]
        if found.explanation is not None:
            measures.append(Measure("of it, avoidable (if its features were Gaussian)", found.explanation.avoidable))
            measures.append(Measure("of it, not avoidable", found.explanation.unavoidable))
        fix = "modelkeep bias MODEL --data DATA --mitigate standardise" if len(found.classes) == 2 else ""
        finding = replace(_finding(found), value=measure, queries=len(data))
        finding = replace(
            finding,
            command=f"modelkeep bias MODEL --data DATA --seed {seed}",
            fix=fix if finding.status == "fail" else "",
        )
        return Section(TITLE, LEAD, tuple(measures), (finding,), (picture,))


def _finding(found: Amplification) -> Finding:
    measured = amplification_verdict(found)
    if found.explanation is not None:
        avoidable = found.explanation.avoidable
        measured += (
            f" If its features were Gaussian, {100 * found.explanation.unavoidable.value:.1f} points could not be "
            f"avoided; {100 * avoidable.value:+.1f} ({100 * avoidable.low:+.1f} to {100 * avoidable.high:+.1f}) come "
            "from how it uses them."
        )
    directed = found.p_value <= 0.05
    if directed and found.distance.low >= MATTERS:
        return Finding(
            id="bias.amplified",
            severity="medium",
            title="It predicts some classes more often than they occur",
            measured=measured,
            meaning="Examples of the other classes are overlooked more often than by chance.",
            remedy="Try `modelkeep bias MODEL --data DATA --train TRAINING --mitigate standardise`, then experts; "
            "train to convergence, on features of zero mean."
            if len(found.classes) == 2
            else "Look at the examples of the classes that are predicted too rarely; weight them more in training.",
            weight=found.distance.value,
        )
    # Resamples of hardly any errors have hardly any: then what may be moved is bounded by what may be wrong.
    few = (1 - found.accuracy.value) * found.accuracy.n < 5
    most = max(found.distance.high, 1 - found.accuracy.low) if few else found.distance.high
    if most > DOUBT or (directed and found.distance.value >= MATTERS):
        return Finding(
            id="bias.unclear",
            severity="unclear",
            title="Too few examples to say whether it amplifies bias",
            measured=measured,
            meaning=f"Up to {percent(most)} of the predictions may be moved, or fewer than {percent(MATTERS)}, which "
            "would not matter.",
            remedy="Give more examples.",
        )
    return Finding(
        id="bias.as-it-occurs",
        severity="good",
        title="It predicts the classes about as often as they occur",
        measured=measured,
        meaning="Its errors in one direction make up for those in the other.",
        remedy="Nothing.",
    )


def _one_class(data: Data) -> Finding:
    return Finding(
        id="bias.one-class",
        severity="unclear",
        title="Data of a single class cannot show whether it amplifies bias",
        measured=f"All {len(data)} examples are '{data.classes[int(data.y[0])]}'.",
        meaning="What it does to the other classes was not seen.",
        remedy="Give examples of all classes, as often as they occur.",
    )
