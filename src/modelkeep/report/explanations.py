"""Explanations: the same examples explained for several quantities, side by side, at each of several slices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import not_
from typing import Annotated

import torch
from pydantic import Field

from modelkeep.core.data import Data
from modelkeep.core.method import declaration_of, recorded
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.core.slices import Place
from modelkeep.explain import (
    AgainstAll,
    ClassScore,
    Contrast,
    Explained,
    Explainer,
    ExplainUnits,
    IntegratedGradients,
    PredictedScore,
    Quantity,
)
from modelkeep.explain.explainers import spread
from modelkeep.explain.units import units_of
from modelkeep.report.measure import percent
from modelkeep.report.page import Page, Part, Table
from modelkeep.report.picture import Picture
from modelkeep.report.side_by_side import maps, unit_bars
from modelkeep.report.words import TextWords, strongest_words, texts_of

MOST_UNITS = 8  # what a person still compares
_TOLD = 3  # of them on a terminal


@dataclass(frozen=True)
class Example:
    """One explained example: which of the data it is, its label where the data has one, and the model's answer."""

    index: int
    label: str | None
    predicted: str
    probability: float


@dataclass(frozen=True)
class Quantified:
    """One quantity at one slice: its mean value, and by how much the attributions miss its change."""

    quantity: str
    value: Estimate
    gap: Estimate | None

    @property
    def misses_much(self) -> bool:
        """Whether the attributions miss so much that their sizes say little."""
        return self.gap is not None and self.gap.value > 0.1 * abs(self.value.value)


@dataclass(frozen=True)
class UnitInfluence:
    """One unit of a slice (a feature of a table, a channel of a feature map) and its influence on each quantity."""

    name: str
    index: int
    influence: tuple[Estimate, ...]


@dataclass(frozen=True)
class AtSlice:
    """What was found at one slice.

    `texts` are the words of explained texts. `per` says what the influence of a unit is measured for; `mapped`, whether
    the picture shows where in the input; and the `sheet`, what the strongest units stand for.
    """

    place: Place
    distribution: str
    quantities: tuple[Quantified, ...]
    units: tuple[UnitInfluence, ...]
    per: str
    mapped: bool
    texts: Annotated[tuple[TextWords, ...], Field(exclude_if=not_)] = ()
    picture: Annotated[Picture | None, Field(exclude_if=not_)] = field(default=None, repr=False)
    sheet: Annotated[Picture | None, Field(exclude_if=not_)] = field(default=None, repr=False)

    @property
    def figures(self) -> Table:
        """The quantities in figures."""
        rows = []
        for each in self.quantities:
            gap = "no baseline" if each.gap is None else f"{each.gap.value:.2g}"
            interval = f"{each.value.low:.3g} to {each.value.high:.3g}"
            rows.append([each.quantity, f"{each.value.value:.3g}", interval, gap])
        return Table(rows, header=("quantity", "mean value", "95 % interval", "efficiency gap"))

    @property
    def largest_word(self) -> float:
        """The end of the scale that all words of this slice share."""
        return max((abs(value) for text in self.texts for row in text.values for value in row), default=0.0)

    @property
    def largest(self) -> float:
        """The end of the scale that all bars of this slice share."""
        ends = [abs(end) for unit in self.units for e in unit.influence for end in (e.low, e.value, e.high)]
        return max(ends, default=0.0) or 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanations(Result, kind="explanations"):
    """Examples of the data, explained slice by slice."""

    model_name: str
    data_name: str
    method: str
    examples: tuple[Example, ...]
    slices: tuple[AtSlice, ...]

    def rows(self) -> list[tuple[str, str]]:
        """Per slice and quantity, the strongest units and, where there is a baseline, what the attributions miss."""
        rows = []
        for at in self.slices:
            for i, quantified in enumerate(at.quantities):
                # In the order of the page, which is that of the largest influence on any quantity.
                told = [f"{unit.name} {unit.influence[i].value:+.2g}" for unit in at.units[:_TOLD]]
                told += [f"{word} {value:+.2g}" for word, value in strongest_words(at.texts, i, 5)]
                if quantified.gap is not None:
                    told.append(f"gap {quantified.gap.value:.2g}")
                rows.append((str(at.place) if i == 0 else "", f"{quantified.quantity}: {', '.join(told)}"))
        return rows


def explain_examples(
    model: Model,
    data: Data,
    index: Sequence[int],
    *,
    places: Sequence[Place],
    quantities: Sequence[Quantity],
    explainer: Explainer = IntegratedGradients(),  # noqa: B008 - frozen
    sheets: int = 0,
    labelled: bool = True,
    name: str = "",
    seed: int = 0,
) -> Explanations:
    """Explain the examples of `data` at `index`: each of `quantities` at each of `places`, by one explainer.

    Features of a table are measured in units of their spread over all of `data`; without that, millimetres would
    always seem to count more than metres. For the `sheets` strongest units of an inner place all of `data` is searched
    for what they stand for. `labelled` says whether the labels of the data are the truth.
    """
    model.require_fit(data)
    chosen = data.take(index)
    ready = explainer.suit(model, data)
    with measured(seed, model.fingerprint(), data.fingerprint(), model.warnings) as provenance:
        probabilities, predicted = model.probs(chosen.x).cpu().max(dim=1)
        examples = tuple(
            Example(i, data.classes[label] if labelled else None, model.classes[answer], probability)
            for i, label, answer, probability in zip(
                index, chosen.y.tolist(), predicted.tolist(), probabilities.tolist(), strict=True
            )
        )
        found = {
            place: [
                replace(ready, slice=place.name, call=place.call, quantity=quantity)(model, chosen, seed=seed)
                for quantity in quantities
            ]
            for place in places
        }
        scale = spread(data.x) if data.x.ndim == 2 else None
        described = [_at_slice(place, explained, examples, scale) for place, explained in found.items()]
        if sheets and model.nest is None:  # a sheet shows an input that was optimised, and token ids cannot be
            described = [
                replace(at, sheet=_sheet(model, data, chosen, at, quantities[-1], sheets, seed)) for at in described
            ]
        result = Explanations(
            provenance=provenance(),
            model_name=name or type(model.module).__name__,
            data_name=data.name,
            method=_name(explainer),
            examples=examples,
            slices=tuple(described),
        )
    return recorded(result, explainer)


def _name(explainer: Explainer) -> str:
    own = declaration_of(explainer)
    return own.name if own is not None else type(explainer).__name__


def explanations_page(found: Explanations) -> Page:
    """The page of explained examples."""
    pictures = {}
    for at in found.slices:
        stem = "explain-" + re.sub(r"[^\w.-]+", "-", str(at.place)).strip("-")
        if at.picture is not None:
            pictures[f"{stem}.png"] = at.picture
        if at.sheet is not None:
            pictures[f"{stem}-units.png"] = at.sheet
    rows = [[str(e.index), e.label or "unknown", e.predicted, percent(e.probability)] for e in found.examples]
    header = ("number in the data", "label", "the model says", "probability")
    told = f"{len(rows)} examples of {found.data_name}"
    return Page(
        result=found,
        title=f"What {found.model_name} looks at in {found.data_name}",
        verdict=_verdict(found),
        lead="Influence says how strongly each part of the input, or of the network, moves the quantity that is "
        "explained. Attribution, where there is a baseline, says how much of the quantity a part accounts for.",
        parts=(
            Part("Explanations", explanations=found),
            Part("The explained examples", tables=(Table(rows, header, told, open=len(rows) <= 12),)),
        ),
        pictures=pictures,
    )


def _verdict(found: Explanations) -> str:
    """What was explained, and how often the model is right on it."""
    places = ", ".join(str(at.place) for at in found.slices)
    labelled = [e for e in found.examples if e.label is not None]
    told = f"{len(found.examples)} of its answers are explained, at {places}."
    if labelled:
        right = sum(e.label == e.predicted for e in labelled)
        told += f" {right} of {len(labelled)} are right; so few say nothing about its accuracy."
    if any(quantified.misses_much for at in found.slices for quantified in at.quantities):
        told += " Some attributions miss much of what they explain: read their sizes with care."
    return told


def usual_quantities(model: Model, data: Data) -> tuple[Quantity, ...]:
    """What to explain by default: of two classes, each and the one against the other; of a table, its commonest.

    Of pictures with many classes it is the predicted one. That would not do for the features of a table, which speak
    for one class as they speak against another: a mean over predictions of both would be about nothing.
    """
    if len(model.classes) == 2:
        second, first = model.classes
        return ClassScore(first), ClassScore(second), Contrast(first, second)
    if len(model.input_shape) == 1 and model.nest is None:
        commonest = data.y.bincount(minlength=len(model.classes)).argsort(descending=True, stable=True)[:3]
        return tuple(AgainstAll(model.classes[label]) for label in commonest.sort().values.tolist())
    return PredictedScore(), AgainstAll()


def choose_examples(data: Data, count: int) -> list[int]:
    """Which examples to show: the first of each class, then the second of each, up to `count`.

    >>> choose_examples(Data(torch.zeros(5, 1), torch.tensor([0, 0, 0, 1, 1]), ("a", "b")), 3)
    [0, 3, 1]
    """
    seen = [0] * len(data.classes)
    turns = []
    for i, label in enumerate(data.y.tolist()):
        seen[label] += 1
        turns.append((seen[label], label, i))
    return [i for *_, i in sorted(turns)[:count]]


def _at_slice(
    place: Place, found: list[Explained], examples: Sequence[Example], spread: torch.Tensor | None
) -> AtSlice:
    table = found[0].slice == "input" and found[0].influence.ndim == 2
    texts = texts_of(found)
    pixels = found[0].slice == "input" and not table
    units = [] if pixels or texts else _units(found, spread if table else None)
    per = "standard deviation of the feature" if table else "unit of its activation"
    names = [explained.quantity for explained in found]
    drawn = None if texts else maps(found, [_title(example) for example in examples])
    picture = None
    if drawn is not None:
        told = (
            "Red speaks for the quantity, blue against it; one scale for all, cut off for the strongest half per cent."
        )
        picture = Picture.of(drawn, f"Where each quantity comes from, at {place}", told)
    elif units:
        bars = unit_bars({unit.name: unit.influence for unit in units}, names, f"mean influence per {per}")
        picture = Picture.of(bars, f"The strongest units at {place}", f"Mean influence per {per}.")
    return AtSlice(
        place=place,
        distribution=found[0].distribution,
        quantities=tuple(
            Quantified(
                explained.quantity,
                _mean(explained, explained.values),
                _mean(explained, explained.gap.abs()) if explained.gap is not None else None,
            )
            for explained in found
        ),
        units=tuple(units),
        per=per,
        mapped=drawn is not None,
        texts=texts,
        picture=picture,
    )


def _sheet(
    model: Model, data: Data, chosen: Data, at: AtSlice, quantity: Quantity, count: int, seed: int
) -> Picture | None:
    """What the strongest units stand for; None at the input, which stands for itself."""
    if at.place.name == "input":
        return None
    units = [unit.index for unit in at.units[:count]]
    found = ExplainUnits(
        slice=at.place.name, call=at.place.call, quantity=quantity, units=units, exemplars_from=data, batch_size=16
    )(model, chosen, seed=seed)
    told = (
        f"Each of the {len(units)} strongest units: how active it is on the data, the examples that activate it most, "
        "what in them does so, and an input that was optimised for it."
    )
    return Picture.of(found.draw(), f"What the strongest units at {at.place} stand for", told)


def _units(found: list[Explained], spread: torch.Tensor | None) -> list[UnitInfluence]:
    """The units that are strongest for any of the quantities, in the order of their largest mean influence."""
    per_unit = [units_of(e.influence if spread is None else e.influence * spread, e.slice) for e in found]
    # Influence alone would put units first that have a large weight and are never active.
    shares = per_unit if spread is not None else [e.comparable()[0] for e in found]
    strength = torch.stack([share.abs().mean(dim=0) for share in shares]).amax(dim=0)
    order = strength.argsort(descending=True, stable=True)[:MOST_UNITS].tolist()
    return [
        UnitInfluence(
            found[0].unit_name(i),
            i,
            tuple(_mean(e, influences[:, i]) for e, influences in zip(found, per_unit, strict=True)),
        )
        for i in order
    ]


def _title(example: Example) -> str:
    wrong = f"\nis {example.label}" if example.label not in (None, example.predicted) else ""
    return f"{example.predicted} {100 * example.probability:.0f} %{wrong}"


def _mean(explained: Explained, values: torch.Tensor) -> Estimate:
    return Estimate.bootstrap(values.double().numpy(), explained.provenance.seed)
