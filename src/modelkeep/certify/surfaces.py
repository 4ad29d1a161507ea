"""The decision surface of a model of two features: which classes a guarantee names where (Leino2022, figure 7.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from modelkeep.certify.constants import lipschitz
from modelkeep.certify.guarantees import Guarantee
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.results import Estimate, Result, Tensor, measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_REJECTED = "#BDBDBD"
_STRIPE = 9  # the width of a stripe, in pixels of the drawn raster
_FINER = 3  # pixels per cell and side, so that stripes are smooth
_MARGIN = 0.05  # the plane shown beyond the data, as a share of their range


@dataclass(frozen=True, kw_only=True, eq=False)
class Surface(Result, kind="surface"):
    """The smallest certified set in every cell of a raster over the plane, and the data.

    `sets: (rows, columns, m)`, rows by rising second feature; no class is named where all is rejected. `extent` is
    the raster's left, right, bottom and top.
    """

    guarantee: str
    radius: float
    classes: tuple[str, ...]
    features: tuple[str, ...]
    extent: tuple[float, float, float, float]
    sets: Tensor
    points: Tensor
    labels: Tensor
    rejected: Estimate

    def rows(self) -> list[tuple[str, str]]:
        cells = self.sets.shape[0] * self.sets.shape[1]
        return [
            ("guarantee", f"{self.guarantee} within {self.radius:g}"),
            ("data rejected", str(self.rejected)),
            *(
                (f"of the plane: {_either(self.classes, s)}", f"{count / cells:.1%}")
                for s, count in self.count_sets().items()
            ),
        ]

    def count_sets(self) -> dict[tuple[int, ...], int]:
        """In how many cells each set is named, the smallest sets first; the empty one, what is rejected, last."""
        found, counts = torch.unique(self.sets.flatten(0, 1), dim=0, return_counts=True)
        members = [tuple(row.nonzero().flatten().tolist()) for row in found]
        order = sorted(zip(members, counts.tolist(), strict=True), key=lambda s: (len(s[0]) or math.inf, s[0]))
        return dict(order)

    def draw(self) -> Figure:
        return draw_surfaces([self])

    def paint(self, ax: Axes, title: str) -> None:
        """The surface in the given axes: a colour per class, stripes of several where several are named."""
        colours = _colours(len(self.classes))
        ax.imshow(_raster(self.sets, colours), extent=self.extent, origin="lower", interpolation="nearest")
        for label, colour in enumerate(colours):
            of_class = self.points[self.labels == label]
            ax.scatter(of_class[:, 0], of_class[:, 1], s=10, color=colour, edgecolors="white", linewidths=0.4)
        plots.style(ax, title, self.features[0], self.features[1])
        ax.grid(visible=False)


def surface(
    model: Model, guarantee: Guarantee, radius: float, data: Data, *, norm: Norm = "l2", resolution: int = 200
) -> Surface:
    """Certify a raster over the plane in which `data` lies, for a model of two features."""
    model.require_fit(data)
    if model.input_shape != (2,):
        raise InputError(f"A decision surface needs a model of two features. This one takes {model.input_shape}.")
    if not radius >= 0:
        raise bad_parameter("surface", "radius", "a number of at least 0", radius)
    if resolution < 2:
        raise bad_parameter("surface", "resolution", "at least 2 cells along a side", resolution)
    with measured(0, model.fingerprint(), data.fingerprint()) as provenance:
        low, high = data.x.amin(dim=0), data.x.amax(dim=0)
        beyond = _MARGIN * (high - low).clamp(min=1e-6)
        (left, bottom), (right, top) = (low - beyond).tolist(), (high + beyond).tolist()
        up, across = torch.linspace(bottom, top, resolution), torch.linspace(left, right, resolution)
        cells = torch.cartesian_prod(up, across).flip(1)
        bound = lipschitz(model, norm)
        sets, kept = (
            guarantee.smallest_sets(model.logits(x), radius * bound.rate + bound.rounding_cost(x))
            for x in (cells, data.x)
        )
        return Surface(
            guarantee=guarantee.name,
            radius=radius,
            classes=model.classes,
            features=data.features or ("", ""),
            extent=(left, right, bottom, top),
            sets=sets.view(resolution, resolution, -1),
            points=data.x,
            labels=data.y,
            rejected=Estimate.rate(int((~kept.any(dim=1)).sum()), len(data)),
            provenance=provenance(),
        )


def draw_surfaces(surfaces: Sequence[Surface], titles: Sequence[str] = ()) -> Figure:
    """Surfaces of the same classes side by side, with one legend that names the sets of all."""
    from matplotlib.patches import Patch

    if not surfaces or len({s.classes for s in surfaces}) != 1 or (titles and len(titles) != len(surfaces)):
        raise InputError("Surfaces side by side must be one or more, of the same classes, with one title each or none.")
    drawn = plots.figure(0.4 + 3.4 * len(surfaces), 4.2)
    names = titles or [f"{s.guarantee}, radius {s.radius:g}" for s in surfaces]
    for ax, one, name in zip(drawn.subplots(1, len(surfaces), squeeze=False).flat, surfaces, names, strict=True):
        one.paint(ax, name)
    classes, colours = surfaces[0].classes, [_pale(colour) for colour in _colours(len(surfaces[0].classes))]
    handles = []
    for members in sorted({s for one in surfaces for s in one.count_sets()}, key=lambda s: (len(s) or math.inf, s)):
        first, *others = [colours[i] for i in members] or [_pale(_REJECTED)]
        # A hatch has one colour: of three classes and more it shows the second, and the label says the rest.
        handle = Patch(facecolor=first, linewidth=0, label=_either(classes, members))
        if others:
            handle.set(hatch="/////", edgecolor=others[0])
        handles.append(handle)
    drawn.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3 * len(surfaces)), frameon=False)
    return drawn


def _either(classes: Sequence[str], members: Sequence[int]) -> str:
    """A set of classes in words.

    >>> _either(("red", "green", "blue"), (0, 2))
    'red or blue'
    """
    return " or ".join(classes[i] for i in members) or "rejected"


def _colours(classes: int) -> list[str]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    if classes <= len(plots.PALETTE):
        return list(plots.PALETTE[:classes])
    return [to_hex(colormaps["hsv"](i / classes)) for i in range(classes)]


def _pale(colour: str) -> tuple[float, float, float]:
    """The colour of a region: paler than the points on it."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - 0.62 * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def _raster(sets: torch.Tensor, colours: Sequence[str]) -> Any:
    """The picture `(rows, columns, 3)` of sets `(rows, columns, m)`, with stripes where several classes are named."""
    fine = sets.repeat_interleave(_FINER, dim=0).repeat_interleave(_FINER, dim=1)
    rows, columns = (torch.arange(size) for size in fine.shape[:2])
    stripe = (rows[:, None] + columns[None, :]) // _STRIPE
    # Stripes take turns among the members of a set: the first class at which the count of members reaches the turn.
    turn = stripe % fine.sum(dim=2).clamp(min=1) + 1
    shown = (fine.cumsum(dim=2) == turn[..., None]).int().argmax(dim=2)
    shown = torch.where(fine.any(dim=2), shown, len(colours))
    return torch.tensor([_pale(colour) for colour in (*colours, _REJECTED)])[shown].numpy()
