"""Can it be proved that a small change of the input changes nothing?"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from modelkeep.attack import PGD
from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Outcomes, Section, Severity
from modelkeep.certify.certification import Certify
from modelkeep.certify.constants import Lipschitz
from modelkeep.certify.lower_bounds import LipschitzSearch
from modelkeep.certify.work import count_products
from modelkeep.core import plots
from modelkeep.core.card import Preprocessing
from modelkeep.core.data import Data
from modelkeep.core.errors import ModelKeepError, OutOfTime
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

LEAD = (
    "A bound on how fast the network can change proves of a right answer that no change up to a radius makes it wrong, "
    "by any attack. What it does not prove may still be true."
)
_STEPS = 30  # of the search from below, which only says how loose the bounds are
TITLE = "Can it be proved?"


@declare("check", "certification", access="weights")
class CheckCertification:
    """The verified accuracy in L2, at the radius of the attacks' middle share; which layers stand in its way."""

    examples: int = setting("Examples to look at, drawn by the seed.", default=256, at_least=1)
    radii: tuple[float, ...] = setting("Radii, as shares of the input's range or spread.", default=(0.01, 0.03, 0.1))

    steps: int = setting("Steps of the attack on the same examples.", default=40, at_least=1)

    def cost(self, model: Model, data: Data) -> Cost:
        """The bounds of the layers, the search for the steepest margins, and the attack."""
        try:
            products = count_products(model)
        except ModelKeepError:  # it has no bounds, which the check says at once
            return Cost(0)
        passes = (2 * self.steps + 6) * min(self.examples, len(data)) + LipschitzSearch(steps=_STEPS).passes
        return Cost(passes, products, "`modelkeep certify model MODEL --data DATA --radius …` runs the proof alone.")

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Certify a sample of the data."""
        data = data.sample(min(self.examples, len(data)), seed)
        if model.bounds is not None:
            unit, size = "", model.bounds[1] - model.bounds[0]
        else:
            unit, size = " spreads", 1.0
            model, data = _in_units_of_spread(model, data)
        # As long as the attacks in L2 go, see `robustness.py`.
        wanted = [share * size * math.sqrt(math.prod(model.input_shape)) / 2 for share in self.radii]
        middle = wanted[len(wanted) // 2]
        try:
            found = Certify(radius=middle)(model, data)
            below = LipschitzSearch(steps=_STEPS)(model, data, seed=seed).constant
            attacked = PGD(norm="l2", radius=middle, steps=self.steps)(model, data, seed=seed)
        except OutOfTime:
            raise
        except ModelKeepError as error:  # an operation without a rule, mostly: the rest of the audit goes on
            return Section(TITLE, LEAD, findings=(_cannot(error),))
        right, radii, bounds = found.logits.argmax(dim=1) == data.y, found.radii, found.bounds
        steps = [wanted[-1] * step / 40 for step in range(41)]
        curve = plots.curve(
            steps,
            {"proved": [_share_proved(right, radii, step) for step in steps]},
            x_label=f"radius, L2{unit}",
            y_label="accuracy",
        )
        layers = sorted(bounds.layers, key=lambda layer: -layer.bound)[:10]
        factors = {layer.name: Estimate(layer.bound, layer.bound, layer.bound, 1) for layer in layers}
        return Section(
            TITLE,
            LEAD,
            (
                Measure(f"proved to be right (L2 {middle:.3g}{unit})", found.verified),
                Measure(f"no attack found, same examples and radius (L2 {middle:.3g}{unit})", attacked.robust_accuracy),
                *(
                    Measure(f"proved to be right (L2 {radius:.3g}{unit})", _share_proved(right, radii, radius))
                    for radius in wanted
                    if radius != middle
                ),
            ),
            (
                replace(
                    _verdict(
                        found.clean, found.verified, attacked.robust_accuracy, f"{middle:.3g}{unit}", bounds, below
                    ),
                    value=Measure(f"proved to be right (L2 {middle:.3g}{unit})", found.verified),
                    outcomes=Outcomes.of(data, right & (radii > middle)),
                    access="weights",
                    queries=attacked.queries + attacked.gradients,
                    fix="" if unit else f"modelkeep certify train MODEL --data DATA --radius {middle:.4g}",
                ),
            ),
            (
                Picture.of(
                    curve,
                    "Proved accuracy against the radius",
                    "The share of right answers that are proved to stay right. The band is the 95 % interval.",
                ),
                Picture.of(
                    plots.bars(factors, x_label="at most this many times"),
                    "How much each stretch of the network enlarges a difference",
                    "How much each stretch of the network can enlarge a difference of two inputs, at most. The bound "
                    "multiplies them.",
                ),
            ),
        )


def _share_proved(right: torch.Tensor, radii: torch.Tensor, radius: float) -> Estimate:
    return Estimate.rate(int((right & (radii > radius)).sum()), len(right))


def _in_units_of_spread(model: Model, data: Data) -> tuple[Model, Data]:
    """The same model and data with each feature, or channel, measured in its standard deviations from its mean."""
    others = [axis for axis in range(data.x.ndim) if axis != 1]
    mean = data.x.double().mean(dim=others)
    spread = data.x.double().std(dim=others) if len(data) > 1 else torch.ones_like(mean)
    spread = torch.where(spread > 0, spread, 1.0)
    own = model.card.preprocessing
    before, scale = (torch.tensor(numbers or (default,)) for numbers, default in ((own.mean, 0.0), (own.std, 1.0)))
    # (x - before) / scale, where x = mean + spread · z
    moved = Preprocessing(tuple(((before - mean) / spread).tolist()), tuple((scale / spread).tolist()))
    card = replace(model.card, preprocessing=moved)
    shape = (-1, *(1,) * (data.x.ndim - 2))
    x = (data.x.double() - mean.view(shape)) / spread.view(shape)
    return Model.from_card(model.module, card, model.device), replace(data, x=x.float(), bounds=None)


def _cannot(error: ModelKeepError) -> Finding:
    return Finding(
        id="certification.not-possible",
        severity="unclear",
        title="Nothing can be proved about it, as a part of it has no rule",
        measured=str(error),
        meaning="A bound that left this part out would prove what is not true.",
        remedy="Replace that part by one that has a rule, or certify statistically by smoothing, which takes any "
        "network: modelkeep.certify.smooth.",
    )


def _verdict(
    clean: Estimate, proved: Estimate, attacked: Estimate, radius: str, bounds: Lipschitz, below: float
) -> Finding:
    largest = sorted(bounds.layers, key=lambda layer: -layer.bound)[:3]
    names = ", ".join(f"{layer.name} ({layer.bound:.3g})" for layer in largest)
    measured = (
        f"{percent(clean.value)} of {clean.n} examples are answered rightly; of {percent(proved.value)} this is proved "
        f"within {radius} in L2. Between {percent(proved.value)} (proved) and {percent(attacked.value)} (PGD found no "
        f"change, same examples) lies what is unknown. "
        f"No margin of two classes changes faster than {bounds.constant:.3g} per unit, and "
        f"one was seen to change by {below:.3g}. The largest factors: {names}."
    )
    severity: Severity
    if proved.low >= 0.5 * clean.value > 0:
        severity, name, title = "good", "proved", "Most of its right answers are proved to stay right"
        meaning = "Within this radius no attack will ever change them."
        remedy = "Hand the proof on: modelkeep certify model MODEL --data DATA --radius … writes a signed certificate."
    elif proved.high < 0.1:
        severity, name, title = "unclear", "nothing", "Next to nothing can be proved about its answers"
        meaning = (
            "That is usual for a network that was not trained for it, and says nothing against its answers. But an "
            "attack that finds nothing is then no proof either."
        )
        remedy = (
            "If you need one, train it for it as a GloRo Net: modelkeep certify train MODEL --data … --radius … "
            "Without training, smoothing proves something statistically, at thousands of passes per input."
        )
    elif proved.high - proved.low > 0.3:
        severity, name, title = "unclear", "unclear", "Too few examples to say how much of it can be proved"
        meaning = f"The proved share lies between {percent(proved.low)} and {percent(proved.high)}."
        remedy = "Look at more examples (--examples)."
    else:
        severity, name, title = "unclear", "partly", "Some of its right answers are proved to stay right"
        meaning = "Of the others nothing is known: an attack may change them, or not."
        remedy = "Train it for the proof: modelkeep certify train MODEL --data … --radius …"
    return Finding(
        id=f"certification.{name}",
        severity=severity,
        title=title,
        measured=measured,
        meaning=meaning,
        remedy=remedy,
    )
