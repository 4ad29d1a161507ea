"""Advice: where to cut a model between two parties, by what it costs and by what each could learn there."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch

from modelkeep.completion.initialisation import reset
from modelkeep.completion.retraining import WHOLE
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, SliceError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.core.slices import INPUT, Place
from modelkeep.govern.exposure.completion import Completing, Completion, measure_completions
from modelkeep.govern.exposure.costs import Costs, Link, measure_costs
from modelkeep.govern.exposure.cut import Exposed
from modelkeep.govern.exposure.inversion import invert
from modelkeep.govern.exposure.labels import LabelAttack, LabelLeak, infer_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

MOST_PLACES, ATTACKED = 10, 48
ENOUGH = 0.01  # where the search leaves no more of the error than this, a decoder has nothing to add
_EXPLAINED = (
    "bytes: per example, both ways · weights, time: the first party's share · step: over one process · inputs, labels: "
    "share learned, 0% is guessing · found: inputs re-identified among those attacked · new: labels, with new weights"
)
_NOT_MEASURED = (
    "not measured: it takes trainings from scratch; give completing=Completing(recipe), or --completion-steps"
)


@dataclass(frozen=True, kw_only=True)
class AtCut:
    """What a cut costs, and what is learned there by the best attacker of each kind.

    `inputs` and `labels` are shares: 0 is what guessing the mean input or the most frequent class gives, 1 is all.
    `fresh_labels` is that of the same network with new weights, as at the first step of a training; None where its
    weights cannot be drawn anew. `completion`: how hard either piece is to get back; None where it was not measured.
    """

    place: str
    costs: Costs
    overhead: float
    inputs: Estimate
    inputs_by: str
    reidentified: Estimate
    ssim: Estimate | None
    labels: Estimate
    labels_by: str
    fresh_labels: Estimate | None
    completion: Completion | None = None

    @property
    def leak(self) -> float:
        """The worse of the two."""
        return max(self.inputs.value, self.labels.value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Advice(Result, kind="advice"):
    """All places of a model, in the order of the run, and the recommended one.

    `left_out` are places that were not looked at, because there are many or because the same numbers cross there as at
    another one.
    """

    schema: ClassVar[int] = 2

    link: Link
    most_overhead: float
    cuts: tuple[AtCut, ...]
    left_out: tuple[str, ...]
    recommended: str
    reason: str
    completion_left_out: str | None = None  # why, where it was asked for

    def rows(self) -> list[tuple[str, str]]:
        found = [("recommendation", self.reason), ("link", str(self.link))]
        measured = {cut.place: cut.completion for cut in self.cuts if cut.completion is not None}
        found += [(f"completion at {place}", str(completion)) for place, completion in measured.items()]
        if not measured:
            why = self.completion_left_out
            found.append(("completion hardness", _NOT_MEASURED if why is None else f"not measured: {why}"))
        if all(cut.fresh_labels is not None and cut.fresh_labels.value > 0.9 for cut in self.cuts):
            found.append(("training from new weights", "gives nearly all labels away at every cut, in its first steps"))
        if self.left_out:
            found.append(("places left out", ", ".join(self.left_out)))
        return found

    def table(self) -> Table:
        """A line per place."""
        from rich.table import Table

        caption = [_EXPLAINED, *(f"{label}: {value}" for label, value in self.rows())]
        table = Table(title="Where to cut", caption="\n".join(caption), caption_justify="left", box=None)
        table.add_column("cut after", no_wrap=True)
        for title in ("bytes", "weights", "time", "step", "inputs", "found", "labels", "new"):
            table.add_column(title, justify="right", no_wrap=True)
        for cut in self.cuts:
            cost, fresh = cut.costs, cut.fresh_labels
            table.add_row(
                f"{cut.place} ◀" if cut.place == self.recommended else cut.place,
                f"{cost.bytes_forward + cost.bytes_backward:,}",
                f"{cost.parameters_before / (cost.parameters_before + cost.parameters_after):.0%}",
                f"{cost.compute_before:.0%}",
                f"{cut.overhead:.2f}×",
                _percent(cut.inputs),
                f"{cut.reidentified.value:.0%}",
                _percent(cut.labels),
                "–" if fresh is None else f"{fresh.value:.0%}",
                style="bold" if cut.place == self.recommended else None,
            )
        return table

    def draw(self) -> Figure:
        """What leaks, what crosses and what it costs, a line per place; the recommended one is marked."""
        from modelkeep.govern.exposure.picture import draw_advice

        return draw_advice(self)


def advise(
    model: Model,
    data: Data,
    *,
    cuts: Sequence[str | Place] | None = None,
    link: Link | None = None,
    batch_size: int = 64,
    most_overhead: float = 2.0,
    completing: Completing | None = None,
    seed: int = 0,
) -> Advice:
    """Recommend a cut between a party with the inputs and one with the labels.

    The rule: of the places where a step takes at most `most_overhead` times as long as in one process (of all where
    there is none), the one where the worse of the two leaks is least; of those within one per cent of it, where the
    other leak is least.

    Args:
        model: The model as it is now: attacks on a trained one differ from those on a new one.
        data: Its data; a part of them is what attackers know, and a part is attacked.
        cuts: The places to compare, by name. None: all where each side has parameters, at most ten, evenly spread.
        link: Between the parties. None: measured, this machine's own.
        batch_size: Examples in a step.
        most_overhead: See the rule.
        completing: Also measure how hard each piece is to get back by training. None: do not, it takes a while.
        seed: Decides what is attacked, and how attackers learn.
    """
    if not most_overhead >= 1:
        raise bad_parameter("advise", "most_overhead", "a factor of at least 1", most_overhead)
    model.require_fit(data)
    with measured(seed, model.fingerprint(), data.fingerprint(), model.warnings) as provenance:
        with model.frozen(seed):
            chosen, left_out = _places(model, cuts)
        link = link if link is not None else Link.loopback()
        fresh = _with_new_weights(model, seed)
        found = []
        with progress.task("cuts", len(chosen)) as task:
            for place in chosen:
                task.advance(0, str(place))
                found.append(_at(model, fresh, data, place, link, batch_size, seed))
                task.advance()
        left_out_because = None
        if completing is not None:
            try:
                completed = measure_completions(model, data, chosen, completing, seed)
            except InputError as error:  # too few steps to learn anything: the rest of the advice stands
                left_out_because = str(error)
            else:
                found = [replace(cut, completion=completed[place]) for cut, place in zip(found, chosen, strict=True)]
        best, reason = recommend(found, most_overhead)
        if best.completion is not None:
            easier = best.completion.easier
            reason += (
                f" To get '{easier.part}' back takes at most {easier.hardness.value:.0%} of a training from scratch."
            )
        return Advice(
            provenance=provenance(),
            link=link,
            most_overhead=most_overhead,
            cuts=tuple(found),
            left_out=left_out,
            recommended=best.place,
            reason=reason,
            completion_left_out=left_out_because,
        )


def recommend(cuts: Sequence[AtCut], most_overhead: float) -> tuple[AtCut, str]:
    """The place that the rule of `advise` chooses, and why in a sentence."""
    affordable = [cut for cut in cuts if cut.overhead <= most_overhead]
    among = affordable or list(cuts)
    least = min(cut.leak for cut in among)
    best = min((cut for cut in among if cut.leak <= least + 0.01), key=lambda cut: cut.inputs.value + cut.labels.value)
    of = f"of the {len(among)} places where a step takes at most {most_overhead:g}× as long"
    if not affordable:
        of = f"of all {len(among)} places, though a step takes more than {most_overhead:g}× as long at each"
    return best, (
        f"Cut after '{best.place}': {of}, the worse of what leaks is least there "
        f"({best.inputs.value:.0%} of the inputs, {best.labels.value:.0%} of the labels)"
        + ("; that is nearly all, so no cut protects by itself." if best.leak > 0.9 else ".")
    )


def _places(model: Model, cuts: Sequence[str | Place] | None) -> tuple[list[Place], tuple[str, ...]]:
    """The places to look at, and those left out. Named ones are refused where they cannot be."""
    if cuts is not None:
        named = [Place(cut) if isinstance(cut, str) else cut for cut in cuts]
        if not named:
            raise bad_parameter("advise", "cuts", "at least one place, or None for all", cuts)
        for place in named:
            Exposed.at(model, place)
        return named, ()
    able: list[Place] = []
    seen: list[torch.Tensor] = []
    left_out: list[str] = []
    refused: SliceError | None = None
    probe = model.probe()
    for name in model.slices():
        if name == INPUT:
            continue
        try:
            exposed = Exposed.at(model, name)
            with torch.no_grad():
                crosses = exposed.activations(probe)
        except SliceError as error:
            refused = error
            continue
        if not exposed.before.parameters or not exposed.after.parameters:
            continue
        if any(torch.equal(crosses, other) for other in seen):
            left_out.append(name)
            continue
        seen.append(crosses)
        able.append(exposed.place)
    if not able:
        raise refused or SliceError("The model has no place with parameters before and after it: nothing to split.")
    step = max(1.0, (len(able) - 1) / (MOST_PLACES - 1))
    kept = {able[round(i * step)] for i in range(min(MOST_PLACES, len(able)))}
    return [place for place in able if place in kept], (
        *left_out,
        *(str(place) for place in able if place not in kept),
    )


def _at(model: Model, fresh: Model | None, data: Data, place: Place, link: Link, batch_size: int, seed: int) -> AtCut:
    """Costs and attacks at one place."""
    cost = measure_costs(model, data, place, batch_size=batch_size, seed=seed)
    found = [invert(model, data, slice=place, attacker="white_box", count=ATTACKED, seed=seed)]
    if found[0].error.high > ENOUGH:
        found.append(invert(model, data, slice=place, attacker="decoder", count=ATTACKED, seed=seed))
    inputs = min(found, key=lambda inversion: inversion.error.value)
    attacks: list[LabelAttack] = ["direction", "surrogate"]
    if len(model.classes) == 2:
        attacks.append("norm")
    labels = max(
        (infer_labels(model, data, slice=place, attack=attack, seed=seed) for attack in attacks),
        key=lambda leak: leak.accuracy.value,
    )
    new = None if fresh is None else infer_labels(fresh, data, slice=place, attack="direction", seed=seed)
    return AtCut(
        place=str(place),
        costs=cost,
        overhead=cost.overhead(link),
        inputs=_between(1.0, 0.0, inputs.error),
        inputs_by=inputs.attacker,
        reidentified=max((inversion.reidentified for inversion in found), key=lambda rate: rate.value),
        ssim=inputs.ssim,
        labels=_share_learned(labels),
        labels_by=labels.attack,
        fresh_labels=None if new is None else _share_learned(new),
    )


def _percent(found: Estimate) -> str:
    """The value and how far the interval reaches from it; the picture and the JSON have its two ends."""
    return f"{found.value:.0%} ±{100 * max(found.high - found.value, found.value - found.low):.0f}"


def _share_learned(found: LabelLeak) -> Estimate:
    return _between(found.majority, 1.0, found.accuracy)


def _between(nothing: float, everything: float, found: Estimate) -> Estimate:
    """A measure on the scale from 0 (nothing learned, or worse) to 1 (everything)."""
    span = everything - nothing
    scaled = [min(1.0, max(0.0, (v - nothing) / span)) if span else 0.0 for v in (found.value, found.low, found.high)]
    return replace(found, value=scaled[0], low=min(scaled[1:]), high=max(scaled[1:]))


def _with_new_weights(model: Model, seed: int) -> Model | None:
    """The same network before any training; None where a part does not say how its weights are drawn."""
    fresh = Model.from_card(copy.deepcopy(model.module), model.card, model.device)
    try:
        reset(fresh.module, WHOLE, seed=seed)
    except InputError:
        return None
    return fresh
