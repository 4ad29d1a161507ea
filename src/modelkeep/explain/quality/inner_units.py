"""Inner units: channels of a feature map that set a class apart, transplanted inside the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from modelkeep.core.errors import SliceError
from modelkeep.core.model import Model
from modelkeep.core.slices import Slice
from modelkeep.explain.orientation import oriented_slice
from modelkeep.explain.places import last_feature_map
from modelkeep.explain.quality.regions import Region, set_apart

# A channel belongs to a mark if it tells so many of the others from most of the class, and at most so many do.
EXCLUDES, MOST = 0.8, 1 / 4


def inner_places(model: Model) -> list[str]:
    """Where channels are looked at: the last feature map, where the network has one that can be cut."""
    if model.nest is not None:
        return []
    try:
        found = last_feature_map(model)
    except SliceError:  # a network that cannot be cut has no inner places to look at
        found = None
    return [] if found is None else [found]


class InnerUnits:
    """The peaks of all channels at a place, over all examples."""

    def __init__(self, model: Model, place: str, x: torch.Tensor, batch_size: int) -> None:
        self.model, self.place = model, place
        self.cutting = oriented_slice(model, place, skip="hold")
        with torch.no_grad():
            parts = [self.cutting.h(model.check_inputs(part)).value for part in torch.split(x, batch_size)]
        self.peaks = torch.cat([part.flatten(2).amax(dim=2).cpu() for part in parts])

    def aspects(self, own: torch.Tensor) -> Iterator[InnerAspect]:
        """The channels whose peaks are higher in most of the class than in most others: each alone, and all."""
        least = self.peaks[own].quantile(0.2, dim=0)
        below = (self.peaks[~own] < least - 1e-6).double().mean(dim=0)
        order = below.argsort(descending=True, stable=True)[: max(1, int(MOST * len(below)))].tolist()
        channels = [channel for channel in order if below[channel] >= EXCLUDES]
        for chosen in ([channels[:1]] if channels else []) + ([channels] if len(channels) > 1 else []):
            name = f"channel{'s' * (len(chosen) > 1)} {', '.join(map(str, sorted(chosen)[:6]))} of '{self.place}'"
            yield InnerAspect(self.model, self.cutting, Region(name, kind="units"), tuple(chosen), self.peaks)


@dataclass(frozen=True)
class InnerAspect:
    """Some channels of a feature map; `peaks: (n, channels)` are those of all examples."""

    model: Model
    cutting: Slice
    region: Region
    channels: tuple[int, ...]
    peaks: torch.Tensor

    @property
    def extent(self) -> float:
        """The share of all channels."""
        return len(self.channels) / self.peaks.shape[1]

    def apart(self, x: torch.Tensor, own: torch.Tensor) -> float:
        return set_apart(self.peaks[:, list(self.channels)], own)

    def given(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            cut, other = (self.cutting.h(self.model.check_inputs(x)) for x in (receivers, donors))
            value = cut.value.clone()
            value[:, list(self.channels)] = other.value[:, list(self.channels)]
            return self.cutting.g(cut.replace(value)).argmax(dim=1)

    def taken(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        return self.given(receivers, donors)
