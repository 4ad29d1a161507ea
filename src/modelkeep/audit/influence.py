"""What does it really use?"""

from __future__ import annotations

from dataclasses import replace

import torch

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.examples import rows_at_once
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.core.slices import Place
from modelkeep.explain import ClassScore, DataSet, ExplainUnits, Influence, IntegratedGradients
from modelkeep.explain.places import last_inner_place
from modelkeep.explain.units import units_of
from modelkeep.report.explanations import choose_examples, explain_examples, usual_quantities
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

# What a person can still read in one picture, and what gives a steady mean in little time.
MOST_CLASSES, MOST_UNITS, MOST_EXAMPLES, MOST_PICTURES = 12, 40, 64, 6
# Points on the line of an attribution, and units of the inner place that get a sheet.
_POINTS, _SHEETS = 20, 3


@declare("check", "influence", access="weights", paper="Leino2022, chapter 3")
class CheckInfluence:
    """Attribution at the input, influence at an inner slice, and whether features count that never vary in the data."""

    examples: int = setting("Examples to look at, drawn by the seed.", default=256, at_least=1)
    slice: str | None = setting("The inner place to explain; else the last before the logits.", default=None)

    def cost(self, model: Model, data: Data) -> Cost:
        """Attributions of a few examples, sheets of a few units, and the classes' gradients at the inner place."""
        shown = min(MOST_EXAMPLES if data.x.ndim == 2 else MOST_PICTURES, len(data))
        attributions = 2 * 2 * _POINTS * len(usual_quantities(model, data)) * shown
        # A search for the input of a unit may start again elsewhere; exemplars are looked for in all of the data.
        sheets = _SHEETS * 3 * ExplainUnits.steps + len(data)
        inner = 2 * min(MOST_CLASSES, len(model.classes)) * min(MOST_EXAMPLES, self.examples, len(data))
        return Cost(attributions + sheets + inner)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Explain a few of the data."""
        looked_at = data.sample(min(self.examples, len(data)), seed)
        still = _never_vary(data)
        place = self.slice if self.slice is not None else last_inner_place(model)
        shown = explain_examples(
            model,
            data,
            choose_examples(data, MOST_EXAMPLES if data.x.ndim == 2 else MOST_PICTURES),
            places=[Place(name) for name in ("input", place) if name is not None],
            quantities=usual_quantities(model, data),
            explainer=IntegratedGradients(steps=_POINTS),
            sheets=_SHEETS,
            seed=seed,
        )
        data = looked_at.first(MOST_EXAMPLES)
        findings, measures = [], []
        if still.any() and not still.all() and len(data) > 1:
            # Attribution to a feature that equals the baseline is 0 by definition; influence says what could happen.
            sensitivity = Influence()(model, data, seed=seed).influence.abs()
            share = (sensitivity[:, still].sum(dim=1) / sensitivity.flatten(1).sum(dim=1).clamp_min(1e-30)).double()
            estimate = Estimate.bootstrap(share.numpy(), seed)
            measures.append(Measure("influence on inputs that never vary", estimate))
            finding = _constant_features_finding(estimate, int(still.sum()), still.numel())
            findings.append(replace(finding, value=measures[-1], access="weights"))
        return Section(
            "What does it look at?",
            "Influence is the gradient of a class's score: it says which parts of the input, or of the network, the "
            "answer depends on.",
            tuple(measures),
            tuple(findings),
            (_inner_picture(model, data, place, seed),) if place is not None else (),
            shown,
        )


def _never_vary(data: Data) -> torch.Tensor:
    """Which values of an input are the same in all examples; most data show after a few batches that none are."""
    first = data.rows([0])
    still = torch.ones(data.input_shape, dtype=torch.bool)
    for x, _ in data.batches(rows_at_once(data.input_shape)):
        still &= (x == first).all(dim=0)
        if not still.any():
            break
    return still


def _constant_features_finding(share: Estimate, count: int, total: int) -> Finding:
    fair = count / total
    measured = (
        f"{count} of {total} input features never vary in the data; {percent(share.value)} of the influence is on them."
    )
    if share.low > 0.5 * fair:
        return Finding(
            id="influence.never-varying-features",
            severity="low",
            title="It reacts to parts of the input that never vary in the data",
            measured=measured,
            meaning="Nothing in the data tells the model what to do there, so its reaction is arbitrary.",
            remedy="Remove those features, or vary them in training (shift, noise).",
            weight=share.value,
        )
    if share.high >= 0.5 * fair:
        return Finding(
            id="influence.unclear",
            severity="unclear",
            title="Too few examples to say whether it reacts to parts of the input that never vary",
            measured=measured,
            meaning="The interval of this share holds both answers.",
            remedy="Explain more examples.",
        )
    return Finding(
        id="influence.varying-features",
        severity="good",
        title="It hardly reacts to parts of the input that never vary",
        measured=measured,
        meaning="Its answers depend on what differs between the examples.",
        remedy="Nothing.",
    )


def _inner_picture(model: Model, data: Data, place: str, seed: int) -> Picture:
    """Which unit at the place speaks for which class: the mean influence, class by class."""
    rows = []
    for name in model.classes[:MOST_CLASSES]:
        found = Influence(slice=place, quantity=ClassScore(name), distribution=DataSet())(model, data, seed=seed)
        rows.append(units_of(found.influence, place))
    table = torch.cat(rows)
    strongest = table.abs().amax(dim=0).argsort(descending=True, stable=True)[:MOST_UNITS].sort().values
    figure = plots.matrix(
        table[:, strongest],
        rows=model.classes[:MOST_CLASSES],
        columns=[str(int(i)) for i in strongest],
        x_label=f"unit of '{place}'",
    )
    return Picture(
        plots.data_uri(figure),
        f"Influence of the units at {place} on the classes",
        f"How the strongest units at '{place}' push each class: red raises its score, blue lowers it.",
    )
