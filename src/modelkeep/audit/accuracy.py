"""Is it right, and right for every class?"""

from __future__ import annotations

from dataclasses import replace

import torch

from modelkeep.audit.cost import Cost
from modelkeep.audit.evidence import SHOWN, can_be_shown, show
from modelkeep.audit.findings import Finding, Outcomes, Section
from modelkeep.audit.guessing import judge_guessing
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.examples import rows_at_once
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture


@declare("check", "accuracy", access="labels")
class CheckAccuracy:
    """Accuracy against that of a guess and of a constant answer, and the recall of each class."""

    def cost(self, model: Model, data: Data) -> Cost:
        """One pass of each example."""
        return Cost(len(data))

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Measure on all data."""
        right = torch.cat([model.predict(x).cpu() == y for x, y in data.batches(rows_at_once(data.input_shape))])
        accuracy = Estimate.rate(int(right.sum()), len(data))
        counts = data.y.bincount(minlength=len(data.classes))
        recalls = {
            name: Estimate.rate(int(right[data.y == label].sum()), int(counts[label]))
            for label, name in enumerate(data.classes)
            if counts[label] > 0
        }
        worst_name, worst = min(recalls.items(), key=lambda item: item[1].value)
        # The worst of many classes is below the average by chance, too: its interval is for all of them together.
        worst = Estimate.rate(round(worst.value * worst.n), worst.n, 1 - 0.05 / len(recalls))
        shown = dict(sorted(recalls.items(), key=lambda item: item[1].value)[:20])
        picture = Picture(
            plots.data_uri(plots.bars(shown, x_label="share of the class that is recognised")),
            f"Bars with the recall of {len(shown)} classes",
            "How much of each class is recognised, the weakest first. The whisker is the 95 % interval.",
        )
        finding = judge_guessing(accuracy, counts.tolist(), data.classes) or _verdict(accuracy, worst_name, worst)
        finding = replace(
            finding,
            value=Measure("accuracy", accuracy),
            access="labels",
            queries=len(data),
            outcomes=Outcomes.of(data, right),
            evidence=_mistakes(model, data, right) if finding.severity in ("high", "medium") else (),
        )
        return Section(
            "Is it right?",
            "The model's own answers on data with known labels.",
            (Measure("accuracy", accuracy), Measure(f"recall of its weakest class, '{worst_name}'", worst)),
            (*_untrained(model), finding),
            (picture,),
        )


def _mistakes(model: Model, data: Data, right: torch.Tensor) -> tuple[Picture, ...]:
    """Pictures that it gets wrong, of the weakest classes first."""
    recall = {label: float(right[data.y == label].double().mean()) for label in set(data.y.tolist())}
    wrong = sorted(torch.nonzero(~right).flatten().tolist(), key=lambda i: recall[int(data.y[i])])[:SHOWN]
    if not wrong or not can_be_shown(data.input_shape):
        return ()
    x = data.rows(wrong)
    pairs = zip(data.y[wrong].tolist(), model.predict(x).tolist(), strict=True)
    titles = [f"{data.classes[own]}, seen as {data.classes[said]}" for own, said in pairs]
    caption = "Examples that it gets wrong, of the weakest classes first."
    return show(x, titles, f"{len(wrong)} examples that it gets wrong", caption, model.bounds)


def _untrained(model: Model) -> tuple[Finding, ...]:
    if not model.untrained:
        return ()
    return (
        Finding(
            id="model.untrained",
            severity="high",
            title="It is untrained",
            measured=" ".join(model.warnings),
            meaning="All figures here are those of random weights. They say nothing about a model of yours.",
            remedy="Give its weights: --weights FILE on the command line, weights=… in Python.",
            weight=3.0,
        ),
    )


def _verdict(accuracy: Estimate, worst_name: str, worst: Estimate) -> Finding:
    if worst.high < accuracy.low:
        return Finding(
            id="accuracy.weak-class",
            severity="medium",
            title=f"It is much worse on '{worst_name}' than on average",
            measured=f"It finds {percent(worst.value)} of '{worst_name}' (at most {percent(worst.high)}), but is "
            f"right on {percent(accuracy.value)} of all examples.",
            meaning="For this class the model is worse than the average says.",
            remedy=f"Look at the labels and the number of the examples of '{worst_name}', or weight them more.",
            weight=accuracy.value - worst.value,
        )
    if worst.high - worst.low > 0.5:
        return Finding(
            id="accuracy.few-examples",
            severity="unclear",
            title="Too few examples to say whether it is equally good on all classes",
            measured=f"Of '{worst_name}' there are {worst.n} examples, of which it finds {percent(worst.value)} "
            f"({percent(worst.low)} to {percent(worst.high)}).",
            meaning="A class on which it fails could hide in such a wide interval.",
            remedy="Give more examples of the rare classes.",
        )
    return Finding(
        id="accuracy.as-expected",
        severity="good",
        title=f"It is right on {percent(accuracy.value)} of the data, and no class stands out",
        measured=f"The weakest class is '{worst_name}' with {percent(worst.value)}.",
        meaning="The difference between the classes can be chance.",
        remedy="Nothing. More data would narrow the intervals.",
    )
