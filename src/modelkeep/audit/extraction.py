"""How many answers make a copy of it?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import one_hot

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section
from modelkeep.audit.plan import DEPTHS, Depth
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture
from modelkeep.training import Recipe

TITLE = "Can it be stolen?"
LEAD = (
    "A thief asks it about {pool} and trains a small network of his own on the answers (KnockoffNet). The copy is "
    "judged on other inputs: fidelity is the share on which it answers as the model does. Beside it stand a network "
    "that learned true labels and asked nothing, and the better of two thieves who ask a guard (ModelGuard-S): one "
    "learns from answers, one from labels. Another thief solves equations, which works on linear logits."
)
BUDGETS: dict[str, tuple[int, ...]] = {
    "quick": (100, 300),
    "standard": (100, 300, 1000),
    "deep": (100, 300, 1000, 3000),
}
COPIED = 0.9
"""A fidelity from which on it counts as copied."""
EPSILON = 1.0  # of the guard: half of the largest distortion, as in Tang2024's main tables
FEWEST, MOST_JUDGED = 200, 2_000
_RECIPE = Recipe(steps=400, batch_size=64, learning_rate=2e-3)
_BESIDES = 1.5  # the optimiser and the loop take half as much again as the passes of a step
_TRAININGS = 4  # copies per budget: the answers, the true labels, and two thieves behind the guard


@dataclass(frozen=True)
class Copies:
    """The fidelity of copies after `queries` questions each: of its answers, behind a guard, and of true labels."""

    queries: tuple[int, ...]
    answers: tuple[Estimate, ...]
    guarded: tuple[Estimate, ...]
    labels: tuple[Estimate, ...]


@dataclass(frozen=True)
class Solved:
    """What equations gave: the questions that they took, and the fidelity of the solution."""

    queries: int
    fidelity: Estimate


@declare("check", "extraction", access="scores", paper="Orekondy2019; Tang2024", extra="guard")
class CheckExtraction:
    """The fidelity of a stolen copy for each number of questions, with and without a guard, beside the true labels."""

    train: Data | None = setting("The training data; else half of the data is asked about.", default=None, repr=False)
    depth: Depth = setting(
        "Up to 300 questions (quick), 1,000 (standard) or 3,000 (deep).", default="quick", choices=DEPTHS
    )

    def cost(self, model: Model, data: Data) -> Cost:
        """The trainings of the copies, which are timed by one step; hardly anything is asked."""
        steps = _RECIPE.steps or 0
        budgets = self._budgets(len(data) // 2 if self.train is None else len(self.train))
        step = _time_step(model, data)
        return Cost(
            2 * budgets[-1] + min(MOST_JUDGED, len(data)),
            seconds=_TRAININGS * len(budgets) * steps * step,
            instead="`modelkeep extract MODEL --data DATA` runs it alone.",
        )

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs numbers as inputs, and some to ask about."""
        if model.nest is not None:
            return "The copy is a small network for numbers, and these inputs are none. See `modelkeep extract`."
        own = len(data) if self.train is None else len(self.train)
        return f"It needs {FEWEST} examples or more, and has {own}." if min(own, len(data)) < FEWEST else ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Steal it with each number of questions; without training data one half of the data is asked about."""
        pool, judged = (self.train, data) if self.train is not None else data.split(0.5, 0.5, seed=seed)
        judged = judged.sample(min(MOST_JUDGED, len(judged)), seed).load()
        pool = pool.sample(min(BUDGETS[self.depth][-1], len(pool)), seed).load()
        copies = steal_copies(model, pool, judged, self._budgets(len(pool)), seed)
        solved = solve_equations(model, judged, seed)
        lead = LEAD.format(pool="the training inputs" if self.train is not None else "one half of the data")
        return Section(TITLE, lead, _measures(copies, solved), (judge(copies, solved),), (_picture(copies),))

    def _budgets(self, pool: int) -> tuple[int, ...]:
        """As many questions as there are inputs to ask about."""
        return tuple(budget for budget in BUDGETS[self.depth] if budget <= pool) or BUDGETS["quick"][:1]


def steal_copies(model: Model, pool: Data, judged: Data, budgets: Sequence[int], seed: int) -> Copies:
    """A copy for each number of questions: of its answers, behind a guard, and of true labels."""
    from modelkeep.core.access import Scores
    from modelkeep.extract import Extract, Guarded, Knockoff, LabelsOnly, Naive
    from modelkeep.extract.substitute import train_substitute
    from modelkeep.guard.defences.modelguard_s import ModelGuardS

    def curve(attack: Naive | LabelsOnly, guarded: bool) -> tuple[Estimate, ...]:
        target = Guarded(model, ModelGuardS(EPSILON)) if guarded else Scores(model)
        steal = Extract(pool, Knockoff(budgets[-1]), attack, recipe=_RECIPE, clean=model)
        return steal.curve(target, judged, budgets=budgets, seed=seed).fidelity

    said = Scores(model).labels(judged.x).cpu()
    drawn = pool.sample(budgets[-1], seed)
    taught = []
    for count in budgets:
        y = one_hot(drawn.y[:count], len(model.classes)).float()
        taught.append(train_substitute(Scores(model), drawn.x[:count], y, recipe=_RECIPE, seed=seed))
    of_labels, of_answers = curve(LabelsOnly(), guarded=True), curve(Naive(), guarded=True)
    return Copies(
        tuple(budgets),
        curve(Naive(), guarded=False),
        tuple(max(pair, key=lambda each: each.value) for pair in zip(of_labels, of_answers, strict=True)),
        tuple(Estimate.rate(int((each.predict(judged.x).cpu() == said).sum()), len(judged)) for each in taught),
    )


def solve_equations(model: Model, judged: Data, seed: int) -> Solved | None:
    """The regression that explains its answers to random questions; None where none does."""
    from modelkeep.core.access import Scores
    from modelkeep.extract.parameters.regression import steal_regression

    stolen = steal_regression(Scores(model), seed=seed)
    if not stolen.recovered:
        return None
    copied = stolen.model().predict(judged.x.double()).cpu() == model.predict(judged.x).cpu()
    return Solved(stolen.queries, Estimate.rate(int(copied.sum()), len(judged)))


def judge(copies: Copies, solved: Solved | None) -> Finding:
    """What the copies say together; a copy that is no better than true labels is said to be so."""
    best, last = copies.answers[-1], copies.queries[-1]
    measured = (
        f"After {last:,} questions a copy answers as it does on {percent(best.value)} of {best.n} other inputs "
        f"({percent(best.low)} to {percent(best.high)}); after {copies.queries[0]:,} on "
        f"{percent(copies.answers[0].value)}. Behind the guard it is {percent(copies.guarded[-1].value)}, and with "
        f"true labels and no question {percent(copies.labels[-1].value)}."
    )
    value, asked = Measure(f"answers that a thief copied by {last:,} questions", best), last
    if solved is not None:
        return Finding(
            id="extraction.easily-stolen",
            severity="high",
            title=f"Its weights can be worked out from {solved.queries:,} answers",
            measured="Its logits are linear in its inputs. The solution of the equations answers as it does on "
            f"{percent(solved.fidelity.value)} of {solved.fidelity.n} inputs (at least "
            f"{percent(solved.fidelity.low)}). {measured}",
            meaning="Whoever may ask it so often, with inputs of his choice, has the model itself.",
            remedy="Answer with labels or rounded probabilities only, count questions, and put a guard before it: "
            "`modelkeep guard serve MODEL`. A guard does not stop a thief who learns from labels.",
            weight=solved.fidelity.value,
            value=Measure(f"answers that a thief copied by solving {solved.queries:,} equations", solved.fidelity),
            access="scores",
            queries=solved.queries,
        )
    if best.low >= COPIED:
        enough = next(n for n, each in zip(copies.queries, copies.answers, strict=True) if each.low >= COPIED)
        return Finding(
            id="extraction.copied",
            severity="low",
            title=f"{enough:,} answers make a copy that nearly always answers as it does",
            measured=measured,
            meaning=_explain(copies),
            remedy=_advise(copies),
            weight=best.value,
            value=value,
            access="scores",
            queries=asked,
        )
    if best.high >= COPIED:
        return Finding(
            id="extraction.unclear",
            severity="unclear",
            title="Too little to say whether it can be copied",
            measured=measured,
            meaning="The interval holds both a good and a poor copy.",
            remedy="Give more examples, or ask more often: `modelkeep extract MODEL --data DATA --queries N`.",
            value=value,
            access="scores",
            queries=asked,
        )
    return Finding(
        id="extraction.poor-copy",
        severity="good",
        title=f"{last:,} answers make no good copy of it",
        measured=measured,
        meaning="A thief who asks more, asks better or trains a larger network gets nearer.",
        remedy="`modelkeep extract MODEL --data DATA --queries N` tries more.",
        value=value,
        access="scores",
        queries=asked,
    )


def _explain(copies: Copies) -> str:
    """What a copy takes away; true labels that do as well say that it is the task and not the model."""
    told = "Whoever has inputs like these and may ask that often can do without the model."
    if copies.labels[-1].high >= copies.answers[-1].value:
        return f"{told} As many true labels taught as much here: who has those need not ask."
    return f"{told} Its answers taught more than true labels."


def _advise(copies: Copies) -> str:
    """What helps, by what was measured here."""
    without, behind = copies.answers[-1], copies.guarded[-1]
    if behind.high < without.low:
        return "A guard helped here: `modelkeep guard serve MODEL`. Count questions, too."
    return (
        "Count and limit questions: `modelkeep guard serve MODEL` does. Changed probabilities alone did not stop the "
        "thieves here, as labels teach them enough."
    )


def _measures(copies: Copies, solved: Solved | None) -> tuple[Measure, ...]:
    by_count = reversed(list(zip(copies.queries, copies.answers, strict=True)))
    found = [Measure(f"answers that a thief copied by {count:,} questions", fidelity) for count, fidelity in by_count]
    if solved is not None:
        told = f"answers that a thief copied by solving {solved.queries:,} equations"
        found.insert(0, Measure(told, solved.fidelity))
    last = f"{copies.queries[-1]:,}"
    return (
        *found,
        Measure(f"the same behind a guard, {last} questions", copies.guarded[-1]),
        Measure(f"answers that a network shares which learned {last} true labels", copies.labels[-1]),
    )


def _picture(copies: Copies) -> Picture:
    figure = plots.curve(
        list(copies.queries),
        {
            "copy of its answers": copies.answers,
            "the same behind a guard": copies.guarded,
            "true labels, nothing asked": copies.labels,
        },
        x_label="questions",
        y_label="fidelity",
    )
    told = (
        f"After {copies.queries[-1]:,} questions the fidelity is {percent(copies.answers[-1].value)} without a guard "
        f"and {percent(copies.guarded[-1].value)} with one"
    )
    return Picture.of(figure, told, "Fidelity against the number of questions; the band is the 95 % interval.")


def _time_step(model: Model, data: Data) -> float:
    """Seconds of one step of the thief's training; of wide inputs a part of the batch is timed."""
    from modelkeep.attack.transfer.proxy import new_network
    from modelkeep.core.access import Scores

    rows = max(1, min(_RECIPE.batch_size, 1_000_000 // torch.Size(data.input_shape).numel()))
    x = torch.rand(rows, *data.input_shape)
    module = new_network(Scores(model), x, None, 0).module
    times = []
    for _ in range(3):
        began = time.process_time()
        torch.autograd.backward(module(x).sum())
        times.append((time.process_time() - began) / torch.get_num_threads())
    return _BESIDES * min(times) * _RECIPE.batch_size / rows
