"""Does the answer go when the salient parts go, and do they alone keep it? (Leino2022, section 4.2)"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np
import torch

from modelkeep.core import progress
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.core.slices import Slice
from modelkeep.explain.orientation import oriented_slice
from modelkeep.explain.result import Explained
from modelkeep.explain.units import expand_baseline, spread_over, units_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Measure = Literal["probability", "logit"]


@dataclass(frozen=True, kw_only=True, eq=False)
class OcclusionCurve(Result, kind="occlusion-curve"):
    """The score of the predicted class while more and more of the slice is occluded, or (isolation) kept.

    `salient` follows the explanation's order and `random` an order drawn for each example, both at the same
    `shares` of the units. The areas under them are means over examples, and `advantage` is the mean of random minus
    salient for occlusion, of salient minus random for isolation: above 0, the explanation orders better than chance.
    `salient_scores` and `random_scores: (n, len(shares))` are the scores behind all of it.
    """

    test: Literal["occlusion", "isolation"]
    slice: str
    explains: str
    measure: Measure
    shares: tuple[float, ...]
    salient: tuple[Estimate, ...] = field(repr=False)
    random: tuple[Estimate, ...] = field(repr=False)
    area: Estimate
    random_area: Estimate
    advantage: Estimate
    salient_scores: Tensor = field(repr=False)
    random_scores: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        better = "lower is better" if self.test == "occlusion" else "higher is better"
        return [
            ("test", f"{self.test} at {self.slice}, in the order of what speaks for the {self.explains}"),
            ("area under the curve", f"{self.area} ({better})"),
            ("area for a random order", str(self.random_area)),
            ("better than random by", str(self.advantage)),
        ]

    def draw(self) -> Figure:
        """Both curves, each in the band of its intervals."""
        from modelkeep.core import plots

        what = "occluded" if self.test == "occlusion" else "kept"
        return plots.curve(
            self.shares,
            {"most salient first": self.salient, "in random order": self.random},
            title=f"The {self.test} test at {self.slice}",
            x_label=f"share that is {what}",
            y_label=f"{self.measure} of the predicted class",
        )


@dataclass(frozen=True, kw_only=True)
class _Test:
    """What both tests share: they take units away in an order, and watch the score of the predicted class.

    Units are columns of a table, pixels of a picture (all channels together), and single units or whole channels of an
    inner slice. An explanation without a baseline of its own is given this one.
    """

    test: ClassVar[Literal["occlusion", "isolation"]]

    baseline: float | torch.Tensor = setting(
        "What a unit becomes: a number, or one value at the slice. Take that of the explanation.", default=0.0
    )
    measure: Measure = setting(
        "Which score of the class that is predicted for the whole input.",
        default="probability",
        choices=get_args(Measure),
    )
    steps: int = setting("At how many shares the score is measured, beside the first.", default=20, at_least=1)
    batch_size: int = setting("Examples that are run at once.", default=256, at_least=1)

    def __call__(self, model: Model, explained: Explained, *, seed: int = 0) -> OcclusionCurve:
        """Test an explanation of this model. The seed draws the random order and the intervals."""
        explained.require_each(type(self).__name__)
        explained.require_model(model)
        x = model.check_inputs(explained.inputs)
        origin = explained.provenance
        with measured(seed, origin.model, origin.data) as provenance, model.frozen(seed):
            cutting = oriented_slice(model, explained.slice, call=explained.call, skip="hold")
            saliency = _saliency(cutting, explained, x, self.baseline, self.batch_size)
            count = saliency.shape[1]
            counts = np.unique(np.linspace(0, count, min(self.steps, count) + 1).round().astype(int)).tolist()
            generator = torch.Generator().manual_seed(seed)
            orders = {"salient": _ranks(-saliency), "random": _ranks(torch.rand(saliency.shape, generator=generator))}
            scores = {name: torch.empty(len(x), len(counts), dtype=torch.float64) for name in orders}
            with progress.task(f"{self.test.capitalize()} at {explained.slice}", 2 * len(x) * len(counts)) as task:
                for part in torch.split(torch.arange(len(x)), self.batch_size):
                    with torch.no_grad():
                        cut = cutting.h(x[part])
                        away = expand_baseline(self.baseline, cut.value, type(self).__name__)
                        label = explained.predicted[part].to(model.device)
                        for name, ranks in orders.items():
                            for column, kept in enumerate(counts):
                                first = ranks[part] < kept
                                gone = spread_over(
                                    first if self.test == "occlusion" else ~first, cut.value, explained.slice
                                )
                                logits = cutting.g(cut.replace(torch.where(gone, away, cut.value)))
                                answers = logits if self.measure == "logit" else logits.softmax(dim=1)
                                scores[name][part, column] = answers.gather(1, label[:, None])[:, 0].double().cpu()
                                task.advance(len(part))
            if not all(torch.isfinite(score).all() for score in scores.values()):
                raise InputError("The model gives NaN or infinite scores for occluded inputs. Choose another baseline.")
            shares = [kept / count for kept in counts]
            areas = {
                name: torch.trapezoid(score, torch.tensor(shares), dim=1).numpy() for name, score in scores.items()
            }
            sign = 1 if self.test == "isolation" else -1
            return OcclusionCurve(
                provenance=provenance(),
                test=self.test,
                slice=explained.slice,
                explains=explained.quantity,
                measure=self.measure,
                shares=tuple(shares),
                salient=_means(scores["salient"], seed),
                random=_means(scores["random"], seed),
                area=Estimate.bootstrap(areas["salient"], seed),
                random_area=Estimate.bootstrap(areas["random"], seed),
                advantage=Estimate.bootstrap(sign * (areas["salient"] - areas["random"]), seed),
                salient_scores=scores["salient"],
                random_scores=scores["random"],
            )


@declare("measurement", "occlusion-test", access="weights", paper="Leino2022, section 4.2")
class OcclusionTest(_Test):
    """Occlude the units in the order of their attribution, and watch the score of the predicted class fall.

    The order is that of the attribution and not of the influence: occlusion moves a unit from its value to the
    baseline, and what that should cost is influence times this distance.

    >>> from modelkeep.explain import Influence, Line
    >>> layer = torch.nn.Linear(3, 2)
    >>> _ = layer.load_state_dict({"weight": torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]]), "bias": torch.zeros(2)})
    >>> model = Model(layer, input_shape=(3,), classes=("cat", "dog"))
    >>> found = Influence(distribution=Line(0.0))(model, torch.ones(1, 3))
    >>> [estimate.value for estimate in OcclusionTest(measure="logit")(model, found).salient]
    [3.0, 1.0, 0.0, 0.0]
    """

    test = "occlusion"


@declare("measurement", "isolation-test", access="weights", paper="Leino2022, section 4.2")
class IsolationTest(_Test):
    """Keep only the units of the largest attribution, and watch the score of the predicted class come back.

    Leino2022 warns that what is left is far from anything the model was trained on, so a low curve need not be the
    explanation's fault.
    """

    test = "isolation"


def _saliency(
    cutting: Slice, explained: Explained, x: torch.Tensor, baseline: float | torch.Tensor, batch_size: int
) -> torch.Tensor:
    """One number per example and unit, `(n, units)`: the attribution, made with our baseline where there is none."""
    with torch.no_grad():
        shape = tuple(cutting.h(x[:1]).value.shape[1:])
    if tuple(explained.influence.shape[1:]) != shape:
        raise InputError(
            f"An occlusion test needs the influence of each value at '{explained.slice}', of shape {shape}. Got "
            f"{tuple(explained.influence.shape[1:])}; were positions summed? Explain it with Influence(...)."
        )
    if explained.attribution is not None:
        return units_of(explained.attribution, explained.slice)
    influence = explained.influence.expand(len(x), *explained.influence.shape[1:])
    parts = []
    for part in torch.split(torch.arange(len(x)), batch_size):
        with torch.no_grad():
            value = cutting.h(x[part]).value
        away = expand_baseline(baseline, value, "an occlusion test")
        parts.append(units_of(influence[part] * (value - away).cpu(), explained.slice))
    return torch.cat(parts)


def _ranks(order_by: torch.Tensor) -> torch.Tensor:
    """The position of each unit when they are sorted, smallest first; the first of equal ones first. `(n, units)`."""
    return order_by.argsort(dim=1, stable=True).argsort(dim=1)


def _means(scores: torch.Tensor, seed: int) -> tuple[Estimate, ...]:
    return tuple(Estimate.bootstrap(scores[:, i].numpy(), seed) for i in range(scores.shape[1]))
