"""Do training examples stand in its first layer?"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from modelkeep.audit.cost import Cost
from modelkeep.audit.evidence import can_be_shown
from modelkeep.audit.findings import Finding, Section
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy import FindWeightLeak, WeightLeak
from modelkeep.privacy.weight_leakage import find_first_dense
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

TITLE = "Do training examples stand in its weights?"
LEAD = (
    "Each column of the first dense layer is drawn as a picture and compared with training examples, and with as many "
    "others. Where nothing leaks, both are the nearer one equally often."
)
MOST = 2_000
"""Examples of each kind that are compared with."""
FEWEST_COLUMNS, PLAIN = 20, 0.7
"""Columns below which nothing good is claimed, and the SSIM from which on a column plainly shows an example."""


@declare("check", "weight-leakage", access="weights", paper="Leino2022, section 8.6.3")
class CheckWeightLeakage:
    """Columns of the first dense layer that look like training examples, more often than like others."""

    train: Data | None = setting("The training data; the data must hold none of it.", default=None, repr=False)

    def cost(self, model: Model, data: Data) -> Cost:
        """Each column, with both signs, is compared with all examples."""
        found = find_first_dense(model)
        columns = 0 if found is None else found[1].out_features
        examples = min(MOST, len(data), 0 if self.train is None else len(self.train))
        return Cost(0, seconds=1e-8 * 4 * columns * examples * prod(model.input_shape))

    def obstacle(self, model: Model, data: Data) -> str:
        """It needs pictures, a dense layer that takes them, and the training data."""
        if not can_be_shown(data.input_shape):
            return "It compares pictures, and these inputs are none."
        if find_first_dense(model) is None:
            return "No dense layer takes the whole input, so no column of weights is a picture."
        return "It needs the training data: --train TRAIN." if self.train is None else ""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Compare with the training data and with `data`."""
        if self.train is None:
            raise InputError("CheckWeightLeakage needs the training data: CheckWeightLeakage(train=…).")
        members = self.train.sample(min(MOST, len(self.train)), seed).load()
        others = data.sample(min(MOST, len(data)), seed).load()
        found = FindWeightLeak()(model, members, seed=seed, held_out=others)
        measure = Measure("columns nearer to a training example than to another (chance: 50 %)", found.nearer)
        finding = replace(judge(found), value=measure, access="weights")
        told = f"Columns of '{found.layer}' and the training examples that they are most like"
        picture = Picture.of(found.draw(), told, f"{told}, with their similarity (SSIM), best first.")
        failed = finding.status == "fail"
        finding = replace(finding, evidence=(picture,) if failed else ())
        return Section(TITLE, LEAD, (measure,), (finding,), () if failed else (picture,))


def judge(found: WeightLeak) -> Finding:
    """Whether training examples win, and how plainly they can be seen."""
    nearer, best = found.nearer, float(found.similarity[0])
    measured = (
        f"Of {nearer.n} columns of '{found.layer}', {percent(nearer.value)} ({percent(nearer.low)} to "
        f"{percent(nearer.high)}; half by chance) are nearer to a training example than to any of as many others. The "
        f"most similar has an SSIM of {best:.2f}."
    )
    if nearer.low > 0.5:
        plain = best >= PLAIN
        return Finding(
            id="weight-leakage.training-examples",
            severity="high" if plain else "medium",
            title="Training examples can be seen in its weights"
            if plain
            else "Its weights are nearer to training examples than chance allows",
            measured=measured,
            meaning="Whoever has the weights learns something of the training examples, without asking the model.",
            remedy="Keep the weights to yourself, or train with differential privacy (`modelkeep train-privately`).",
            weight=nearer.value,
        )
    if nearer.n < FEWEST_COLUMNS:
        return Finding(
            id="weight-leakage.unclear",
            severity="unclear",
            title="Too few columns to say whether training examples stand in its weights",
            measured=measured,
            meaning=f"With fewer than {FEWEST_COLUMNS} columns chance alone may look like this.",
            remedy="Look at the columns below.",
        )
    return Finding(
        id="weight-leakage.none-found",
        severity="good",
        title="No training example can be seen in its first dense layer",
        measured=measured,
        meaning="Only single columns of that layer were looked at, as they are.",
        remedy="Nothing.",
    )
