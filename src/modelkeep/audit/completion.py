"""What does a proposed cut of it protect?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section
from modelkeep.audit.plan import DEPTHS, Depth
from modelkeep.completion import Part, Problem, Retraining, measure_hardness, read_procedure, train_from_scratch
from modelkeep.completion.hardness import Bound, Hardness
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelKeepError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture
from modelkeep.training import Recipe

TITLE = "What does the cut protect?"
LEAD = (
    "Two parties each hold the part on their side of '{cut}'. A party that breaks away tries to get the other part "
    "back by training (Martic2018). The cost is the share of the steps that a training from scratch takes to the "
    "same accuracy: 100 % means that the cut protects as much as the training is worth, 0 % that it protects nothing. "
    "It is an upper bound: a faster way may exist."
)
COMMAND = "modelkeep complete MODEL --data DATA --train TRAIN"
CHEAP = 0.5
"""A share of the training below which the other part is called cheap to get back."""
ALPHA = 0.9  # of the progress of the original training
_TRAININGS: Mapping[str, tuple[int, int, tuple[str, ...]]] = {
    "quick": (3, 100, ("T2",)),
    "standard": (5, 200, ("T1", "T2")),
    "deep": (5, 600, ("T1", "T2", "T5")),
}
"""By depth: seeds, steps of a training, and procedures of retraining."""
_MEASURED, _JUDGED, _BATCH = 20, 500, 64  # looks at the accuracy of a training, at so many examples; examples of a step


@dataclass(frozen=True)
class Side:
    """What a cut leaves to one party: the part that it lacks, and how the report calls it."""

    part: Part
    missing: str


@declare("check", "completion", access="weights", paper="Martic2018, eq. 1")
class CheckCompletion:
    """How much training gets back what one party of a proposed cut lacks, on both sides, by several procedures."""

    cut: str | None = setting("Where a governed model would be cut.", default=None)
    train: Data | None = setting("The training data.", default=None, repr=False)
    depth: Depth = setting(
        "Three seeds and T2 (quick), five seeds with T1 and T2 (standard), or longer and with T5 too (deep).",
        default="quick",
        choices=DEPTHS,
    )

    def cost(self, model: Model, data: Data) -> Cost:
        """The trainings from scratch and again; a step is a pass of its batch and two more for the gradients."""
        seeds, steps, procedures = _TRAININGS[self.depth]
        trainings = seeds * (1 + 2 * len(procedures))
        judged = _MEASURED * min(_JUDGED, len(data))
        return Cost(trainings * (3 * steps * _BATCH + judged), instead=f"`{COMMAND}` runs it alone.")

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs a cut, with something on both sides, and the training data."""
        if self.cut is None:
            return "It needs a place where the model would be cut between two parties: --cut PLACE."
        if self.train is None:
            return "It needs the training data: --train TRAIN."
        try:
            find_sides(model, self.cut)
        except ModelKeepError as error:
            return str(error)
        return ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Train from scratch, and again each side alone, with several seeds."""
        if self.cut is None or self.train is None:
            raise InputError("CheckCompletion needs a cut and the training data: CheckCompletion(cut=…, train=…).")
        hardness = self._measure(model, data, seed)
        sides = find_sides(model, self.cut)
        found = {side.missing: hardness.bound(side.part.name, ALPHA) for side in sides}
        measures = tuple(
            Measure(f"cost of getting back what stands {missing}, of the whole training", bound.hardness)
            for missing, bound in found.items()
        )
        told = "; ".join(f"{missing} {percent(bound.hardness.value)}" for missing, bound in found.items())
        picture = Picture.of(
            hardness.draw(),
            f"Cost of completion as a share of the training: {told}",
            f"The cost for each part and procedure, at {percent(ALPHA)} of the original progress. Lower is cheaper.",
        )
        return Section(TITLE, LEAD.format(cut=self.cut), measures, (judge(found, self.cut),), (picture,))

    def _measure(self, model: Model, data: Data, seed: int) -> Hardness:
        assert self.cut is not None
        assert self.train is not None
        seeds, steps, procedures = _TRAININGS[self.depth]
        recipe = Recipe(steps=steps, evaluate_every=max(1, steps // _MEASURED), batch_size=_BATCH)
        held_out = data.sample(min(_JUDGED, len(data)), seed)
        runs = []
        with progress.task("Completion", seeds * (1 + 2 * len(procedures))) as task:
            for own in range(seed, seed + seeds):
                original = train_from_scratch(model, self.train, held_out, recipe, seed=own).curve
                task.advance()
                for side in find_sides(model, self.cut):
                    problem = Problem(model, side.part, self.train, held_out, recipe)
                    for name in procedures:
                        again = read_procedure(name)(problem, seed=own).curve
                        runs.append(Retraining(side.part.name, name, own, original, again))
                        task.advance()
        return measure_hardness(runs, alphas=(ALPHA,), seed=seed)


def find_sides(model: Model, cut: str) -> tuple[Side, Side]:
    """What the party before the cut lacks, and what the party behind it lacks."""
    place = model.slice(cut)
    before, behind = set(place.parameters_h), set(place.parameters_g)
    if not place.traced:
        raise InputError(f"torch.fx cannot follow this network, so that it cannot be cut at '{cut}'.")
    if not before - behind or not behind - before:
        raise InputError(
            f"On one side of '{cut}' there are no parameters of its own: the cut leaves one party nothing."
        )
    lacks = ((f"behind '{cut}'", behind - before), (f"before '{cut}'", before - behind))
    first, second = (Side(Part(missing, tuple(sorted(names))), missing) for missing, names in lacks)
    return first, second


def judge(found: Mapping[str, Bound], cut: str) -> Finding:
    """What the cheaper side means; that nothing tried was fast is no proof."""
    missing, cheapest = min(found.items(), key=lambda item: item[1].hardness.value)
    cost = cheapest.hardness
    measured = " ".join(
        f"What stands {side} comes back for {_tell(bound.hardness)} of the training, by {_name(bound)}."
        for side, bound in found.items()
    )
    measured += f" That is to {percent(ALPHA)} of the original progress, over {cost.n} seeds."
    value = Measure(f"cost of getting back what stands {missing}, of the whole training", cost)
    again = f"`{COMMAND}` tries other parts and procedures."
    if cost.high < CHEAP:
        return Finding(
            id="completion.cheap",
            severity="medium",
            title=f"A cut at '{cut}' protects little: what stands {missing} is cheap to get back",
            measured=measured,
            meaning="The party that lacks it, with the training data and its own part, needs the other one for less "
            "than half of the training.",
            remedy=f"Cut elsewhere, so that the cheaper side holds more. {again}",
            weight=1 - cost.value,
            value=value,
            access="weights",
        )
    if cost.low < CHEAP:
        return Finding(
            id="completion.unclear",
            severity="unclear",
            title=f"It is open what a cut at '{cut}' protects",
            measured=measured,
            meaning="The interval holds both less and more than half of the training.",
            remedy=f"More seeds narrow it. {again}",
            value=value,
            access="weights",
        )
    return Finding(
        id="completion.costly",
        severity="good",
        title=f"No procedure tried gets back a side of '{cut}' for less than half of the training",
        measured=measured,
        meaning="An upper bound: a better procedure may need less.",
        remedy=again,
        value=value,
        access="weights",
    )


def _tell(cost: Estimate) -> str:
    return f"{percent(cost.value)} ({percent(cost.low)} to {percent(cost.high)})"


def _name(bound: Bound) -> str:
    return "training from scratch" if bound.procedure == "T" else bound.procedure
