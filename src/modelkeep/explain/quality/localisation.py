"""Localisation: how much of an explanation lies on the subject. A property of the MODEL (Leino2022, section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.explain.result import Explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sign = Literal["positive", "absolute"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Localisation(Result, kind="localisation"):
    """How well the salient pixels fall inside the masks: whether the MODEL looks at the subject.

    A faithful explanation of a model that looks elsewhere points elsewhere, so a low number speaks against the model
    and not against the explanation. `inside` is the share of the attribution within the mask, `pointing` how often
    the strongest pixel is in it, `overlap` the intersection over union of the mask and as many of the strongest
    pixels; `area` is the share of the picture that the mask covers, which `inside` and `pointing` would have by chance.
    `shares: (n,)` is `inside` for each example, NaN for the `silent` ones, which have no attribution at all.
    """

    explains: str
    sign: Sign
    inside: Estimate
    pointing: Estimate
    overlap: Estimate
    area: Estimate
    beyond_area: Estimate
    silent: int
    shares: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("explains", f"{self.explains}; {self.sign} attribution"),
            ("inside the mask", str(self.inside)),
            ("area of the mask", str(self.area)),
            ("inside, beyond the area", str(self.beyond_area)),
            ("strongest pixel inside", str(self.pointing)),
            ("overlap (IoU)", str(self.overlap)),
            ("what it is about", "the model, not the explanation: a sound model looks at the subject"),
        ]
        return rows if not self.silent else [*rows, ("no attribution", f"{self.silent} examples, left out")]

    def draw(self) -> Figure:
        """The measures beside the area of the mask."""
        from modelkeep.core import plots

        measures = {
            "attribution inside": self.inside,
            "strongest pixel inside": self.pointing,
            "overlap (IoU)": self.overlap,
            "area of the mask": self.area,
        }
        return plots.bars(measures, title="Does the model look at the subject?", x_label="share")


def measure_localisation(
    explained: Explained, masks: torch.Tensor, *, sign: Sign = "positive", seed: int = 0
) -> Localisation:
    """Compare an explanation of pictures with masks of where the subject is.

    Args:
        explained: What an explainer returned. Its attribution is used, or its influence where it has no baseline.
        masks: True where the subject is, `(n, h, w)` as the explanation's maps.
        sign: What counts: "positive" attribution, that speaks for the quantity, or the "absolute" one.
        seed: For the intervals.

    >>> from modelkeep import Model
    >>> from modelkeep.explain import Influence, Line
    >>> model = Model(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), input_shape=(1, 2, 2), classes=2)
    >>> found = Influence(distribution=Line(0.0))(model, torch.ones(3, 1, 2, 2))
    >>> measure_localisation(found, torch.ones(3, 2, 2, dtype=torch.bool), seed=0).inside.value
    1.0
    """
    explained.require_each("measure_localisation")
    heat = salient_map(explained, sign)
    inside = check_masks(masks, heat)
    empty = torch.nonzero(~inside.flatten(1).any(dim=1)).flatten().tolist()
    if empty:
        raise InputError(
            f"The masks of {len(empty)} examples are empty (the first: {empty[0]}), so nothing can lie inside. Leave "
            "those examples out."
        )
    origin = explained.provenance
    with measured(seed, origin.model, origin.data) as provenance:
        shares = share_inside(heat, inside)
        loud = ~shares.isnan()
        if not loud.any():
            raise InputError(f"None of the {len(heat)} examples has {sign} attribution, so there is nothing to locate.")
        flat, within = heat[loud].flatten(1), inside[loud].flatten(1)
        area = within.double().mean(dim=1)
        hits = within.gather(1, flat.argmax(dim=1, keepdim=True))[:, 0]
        # As many pixels as the mask has: their rank is below the mask's size.
        chosen = (-flat).argsort(dim=1, stable=True).argsort(dim=1) < within.sum(dim=1, keepdim=True)
        overlap = (chosen & within).sum(dim=1).double() / (chosen | within).sum(dim=1)
        return Localisation(
            provenance=provenance(),
            explains=explained.quantity,
            sign=sign,
            inside=Estimate.bootstrap(shares[loud].numpy(), seed),
            pointing=Estimate.rate(int(hits.sum()), len(hits)),
            overlap=Estimate.bootstrap(overlap.numpy(), seed),
            area=Estimate.bootstrap(area.numpy(), seed),
            beyond_area=Estimate.bootstrap((shares[loud] - area).numpy(), seed),
            silent=int((~loud).sum()),
            shares=shares,
        )


def salient_map(explained: Explained, sign: Sign) -> torch.Tensor:
    """What speaks for the quantity, never below 0: `(n, h, w)` for maps, `(n, units)` without them."""
    if sign not in ("positive", "absolute"):
        raise bad_parameter("measure_localisation", "sign", "'positive' or 'absolute'", sign)
    values = explained.influence if explained.attribution is None else explained.attribution
    summed = values.sum(dim=1) if values.ndim == 4 else values
    return summed.clamp_min(0).double() if sign == "positive" else summed.abs().double()


def check_masks(masks: torch.Tensor, heat: torch.Tensor) -> torch.Tensor:
    """The masks, where they are bool and of the explanation's shape."""
    wanted = tuple(heat.shape)
    if not isinstance(masks, torch.Tensor) or masks.dtype != torch.bool:
        got = masks.dtype if isinstance(masks, torch.Tensor) else type(masks).__name__
        raise InputError(f"Masks must be a bool tensor, True where the explanation may be. Got {got}.")
    if tuple(masks.shape) != wanted:
        raise InputError(
            f"Masks must have the shape {wanted} of the explanation, one per example and without channels. "
            f"Got {tuple(masks.shape)}."
        )
    return masks.cpu()


def share_inside(heat: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """The part of each example's heat that lies inside, `(n,)`; NaN where there is no heat at all."""
    total = heat.flatten(1).sum(dim=1)
    return torch.where(total > 0, (heat * inside).flatten(1).sum(dim=1) / total, torch.nan)
