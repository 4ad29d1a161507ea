"""Conceptual soundness: the share of the data whose explanation is admissible (Leino2022, definition 2.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.explain.distributions import Line
from modelkeep.explain.influence import Influence
from modelkeep.explain.quality.localisation import Sign, check_masks, salient_map, share_inside
from modelkeep.explain.result import Explained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Criterion = Callable[[Explained], torch.Tensor]
"""Says of each explained example whether its explanation is admissible, `(n,)`: the Ω* of definition 2.1.

Either bool, or a number that is 0 or more where it is admissible, and the lower the worse where it is not. NaN exempts
an example: there everything is admissible, and it is not counted.
"""


@dataclass(frozen=True, eq=False)
class Inside:
    """Admits explanations of which at least the `share` lies at places that are allowed.

    `masks` is True at the allowed places: `(n, h, w)` or `(h, w)` for pictures, `(n, d)` or `(d,)` for tables, `(…)`
    without n standing for every example. An example that may use everything is exempt.
    """

    masks: torch.Tensor
    share: float = 0.5
    sign: Sign = "positive"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise bad_parameter("Inside", "share", "above 0 and at most 1", self.share)

    def of(self, explained: Explained) -> torch.Tensor:
        """One mask per example, `(n, h, w)` or `(n, d)`."""
        heat = salient_map(explained, self.sign)
        one_for_all = isinstance(self.masks, torch.Tensor) and self.masks.ndim == heat.ndim - 1
        return check_masks(self.masks.expand(len(heat), *self.masks.shape) if one_for_all else self.masks, heat)

    def __call__(self, explained: Explained) -> torch.Tensor:
        allowed = self.of(explained)
        # An explanation that points nowhere does not point at anything that is forbidden.
        margin = share_inside(salient_map(explained, self.sign), allowed).nan_to_num(1.0) - self.share
        return torch.where(allowed.flatten(1).all(dim=1), torch.nan, margin)


@dataclass(frozen=True, kw_only=True, eq=False)
class Soundness(Result, kind="soundness"):
    """On which share of the data the model's explanation is admissible.

    `sound` counts the examples with a requirement; `exempt` had none. `by_class` is the same for each true class.
    `margin: (n,)` is what the criterion said (0 or more: admissible), and `worst` are the indices of the examples that
    are furthest off, with their pictures and maps for `draw`.
    """

    explains: str
    sound: Estimate
    by_class: dict[str, Estimate]
    exempt: int
    worst: tuple[int, ...]
    margin: Tensor = field(repr=False)
    titles: tuple[str, ...] = field(repr=False)
    bounds: tuple[float, float] | None = field(repr=False)
    worst_inputs: Tensor = field(repr=False)
    worst_maps: Tensor = field(repr=False)
    worst_masks: Tensor | None = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        rows = [("explains", self.explains), ("admissible", str(self.sound))]
        for name, sound in sorted(self.by_class.items(), key=lambda item: item[1].value)[:10]:
            rows.append((f"  '{name}'", str(sound)))
        if self.exempt:
            rows.append(("no requirement", f"{self.exempt} examples, not counted"))
        off = [f"{index} ({float(self.margin[index]):+.2f})" for index in self.worst]
        return [*rows, ("worst offenders", ", ".join(off) or "none")]

    def draw(self) -> Figure:
        """The worst offenders, with what was not allowed outlined; without maps or offenders, the share per class."""
        from modelkeep.core import plots

        maps, inputs = self.worst_maps, self.worst_inputs
        if maps.ndim != 3 or len(maps) == 0:
            classes = dict(sorted(self.by_class.items(), key=lambda item: item[1].value)[:20])
            return plots.bars({"all": self.sound, **classes}, x_label="share with an admissible explanation")
        if inputs.ndim == 4 and inputs.shape[2:] == maps.shape[1:] and inputs.shape[1] in (1, 3):
            bounds = self.bounds if self.bounds is not None else (float(inputs.min()), float(inputs.max()))
            figure = plots.heat_over_image(inputs, maps, self.titles, bounds=bounds)
        else:
            figure = plots.signed_heat(maps, self.titles)
        if self.worst_masks is not None:
            for ax, allowed in zip(figure.axes, self.worst_masks, strict=False):
                _outline(ax, ~allowed)
        return figure


@declare("measurement", "soundness", access="weights", paper="Leino2022, definition 2.1")
class MeasureSoundness:
    """Explain every example, and ask a criterion whether the explanation is admissible.

    Influence is a faithful explanation (Leino2022, chapter 4), so what is not admissible is the model's doing. A
    criterion must be one that some model could meet (definition 2.2): asking for attribution where the input equals
    the baseline, for instance, asks for what no explanation can give.

    >>> model = Model(torch.nn.Linear(2, 2), input_shape=(2,), classes=("a", "b"))
    >>> _ = model.module.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})
    >>> data = Data(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]), ("a", "b"))
    >>> print(MeasureSoundness(criterion=Inside(torch.tensor([True, False])))(model, data).by_class["b"].value)
    0.0
    """

    criterion: _Criterion = setting("`Inside(masks)`, or any function of an `Explained`.")
    influence: Influence = setting("How to explain.", default=Influence(distribution=Line(0.0, count=20)))

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Soundness:
        """Measure on the examples of `data`, of which the answer holds."""
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
            explained = self.influence(model, data, seed=seed)
            explained.require_each("MeasureSoundness")
            margin = _read_margin(self.criterion(explained), len(data))
            required = ~margin.isnan()
            admitted = margin >= 0
            if not required.any():
                raise InputError("The criterion exempts every example, so there is nothing to measure.")
            worst = torch.nonzero(required & ~admitted).flatten()
            worst = worst[margin[worst].argsort(stable=True)][:8]
            values = explained.influence if explained.attribution is None else explained.attribution
            maps = values.sum(dim=1) if values.ndim == 4 else values
            return Soundness(
                provenance=provenance(),
                explains=f"{explained.quantity} at {explained.slice}, {explained.distribution}",
                sound=Estimate.rate(int(admitted[required].sum()), int(required.sum())),
                by_class={
                    name: Estimate.rate(int((admitted & of_class).sum()), int(of_class.sum()))
                    for label, name in enumerate(data.classes)
                    if (of_class := required & (data.y == label)).any()
                },
                exempt=int((~required).sum()),
                worst=tuple(worst.tolist()),
                margin=margin,
                titles=tuple(
                    f"{data.classes[int(data.y[i])]}, seen as {data.classes[int(explained.predicted[i])]}\n"
                    f"off by {-float(margin[i]):.2f}"
                    for i in worst
                ),
                bounds=model.bounds,
                worst_inputs=explained.inputs[worst],
                worst_maps=maps[worst],
                worst_masks=self.criterion.of(explained)[worst] if isinstance(self.criterion, Inside) else None,
            )


def _outline(ax: Axes, forbidden: torch.Tensor) -> None:
    """The border of the places `(h, w)` that were not allowed, closed where it meets the edge of the picture."""
    from modelkeep.core.plots import PALETTE

    height, width = forbidden.shape
    closed = torch.nn.functional.pad(forbidden.float(), (1, 1, 1, 1)).numpy()
    if closed.any():
        ax.contour(range(-1, width + 1), range(-1, height + 1), closed, [0.5], colors=[PALETTE[2]], linewidths=1.5)
        ax.set_xlim(-0.8, width - 0.2)
        ax.set_ylim(height - 0.2, -0.8)


def _read_margin(said: object, n: int) -> torch.Tensor:
    """What a criterion said, as a margin `(n,)`: -1 for False and 0 for True, numbers as they are."""
    if not isinstance(said, torch.Tensor) or said.shape != (n,):
        got = f"a tensor of shape {tuple(said.shape)}" if isinstance(said, torch.Tensor) else type(said).__name__
        raise InputError(f"A criterion must give one bool or number per example, a tensor of shape ({n},). Got {got}.")
    if said.dtype == torch.bool:
        return said.double().cpu() - 1.0
    if not said.is_floating_point() or said.isinf().any():
        raise InputError(f"A criterion must give bools or finite numbers (NaN exempts an example). Got {said.dtype}.")
    return said.double().cpu()
