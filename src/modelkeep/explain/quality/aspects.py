"""Aspects: what can be taken from one picture and given to another: pixels, frequencies, colour, a moving pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional

from modelkeep.core.model import Model
from modelkeep.explain.quality.regions import Region, gap, set_apart

Bounds = tuple[float, float] | None


class Aspect(Protocol):
    """A part of an example that can change hands. `region` says in plain data what it is."""

    @property
    def region(self) -> Region: ...
    @property
    def extent(self) -> float:
        """Which share of all that is of its kind it takes."""

    def apart(self, x: torch.Tensor, own: torch.Tensor) -> float:
        """How far it sets the class `own: (n,)` apart from the others, see `regions.set_apart`."""

    def given(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        """The labels of `receivers: (n, ...)` once each has this aspect of its donor."""

    def taken(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        """The labels of `receivers` without this aspect; donors of other classes say what stands there instead."""


@dataclass(frozen=True)
class OfInput:
    """What the aspects of the input share: they make another input, and the model is asked about that."""

    model: Model
    region: Region

    def give(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        """The receivers with this aspect of the donors, `(n, *input_shape)`."""
        raise NotImplementedError

    def take(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        """The receivers without it."""
        return self.give(receivers, donors)

    def given(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        return self.model.predict(self.give(receivers, donors)).cpu()

    def taken(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        return self.model.predict(self.take(receivers, donors)).cpu()


@dataclass(frozen=True)
class Pixels(OfInput):
    """The values at a region that stands at one place; with `contrast`, compared by how they differ from around."""

    contrast: bool = False

    @property
    def extent(self) -> float:
        return self.region.mask(self.model.input_shape)[0].double().mean().item()

    def apart(self, x: torch.Tensor, own: torch.Tensor) -> float:
        seen = contrast(x) if self.contrast else x
        return set_apart(seen[:, self.region.mask(tuple(x.shape[1:]))], own)

    def give(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        return torch.where(self.region.mask(tuple(receivers.shape[1:])), donors, receivers)

    def take(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        # What other pictures have there would leave an edge, which may be the very mark.
        return fill(receivers, self.region.mask(tuple(receivers.shape[1:]))[:1])


@dataclass(frozen=True)
class Frequencies(OfInput):
    """Some of the coefficients of the discrete Fourier transform, in all channels; `bins` are their flat numbers."""

    bins: tuple[int, ...]

    @property
    def extent(self) -> float:
        height, width = self.model.input_shape[1:]
        return len(self.bins) / (height * (width // 2 + 1))

    def content(self, x: torch.Tensor) -> torch.Tensor:
        """Real and imaginary parts, `(n, values)`: a mark has its phase, too."""
        found = spectrum(x)[:, :, list(self.bins)].flatten(1)
        return torch.cat([found.real, found.imag], dim=1)

    def apart(self, x: torch.Tensor, own: torch.Tensor) -> float:
        return set_apart(self.content(x), own)

    def give(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        mixed, given = spectrum(receivers).clone(), spectrum(donors)
        mixed[:, :, list(self.bins)] = given[:, :, list(self.bins)]
        size = tuple(receivers.shape[2:])
        picture = torch.fft.irfft2(mixed.view(*mixed.shape[:2], size[0], size[1] // 2 + 1), s=size, norm="ortho")
        return within(picture.to(receivers.dtype), self.model.bounds)


@dataclass(frozen=True)
class Colour(OfInput):
    """The range of the values in each channel: with it go brightness, contrast and tint."""

    @property
    def extent(self) -> float:
        return 1.0

    def content(self, x: torch.Tensor) -> torch.Tensor:
        """Nearly the least and nearly the largest value of each channel, `(n, 2 × channels)`."""
        low, high = _range(x)
        return torch.cat([low, high], dim=1).flatten(1)

    def apart(self, x: torch.Tensor, own: torch.Tensor) -> float:
        return set_apart(self.content(x), own)

    def give(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        (low, high), (low_given, high_given) = _range(receivers), _range(donors)
        scale = (high_given - low_given) / (high - low).clamp_min(1e-6)
        return within((receivers - low) * scale + low_given, self.model.bounds)


@dataclass(frozen=True)
class Moving(OfInput):
    """A small pattern, wherever it is: the place of a picture that is nearest to `template: (c, side, side)`."""

    template: torch.Tensor

    @property
    def extent(self) -> float:
        return self.template[0].numel() / (self.model.input_shape[1] * self.model.input_shape[2])

    def apart(self, x: torch.Tensor, own: torch.Tensor) -> float:
        return gap(distances(x, self.template[None])[0].flatten(1).amin(dim=1).sqrt(), own)

    def give(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        return torch.where(self._nearest(donors), donors, receivers)

    def take(self, receivers: torch.Tensor, donors: torch.Tensor) -> torch.Tensor:
        """The receivers without their own pattern: at its place is what the donors have there."""
        return torch.where(self._nearest(receivers), donors, receivers)

    def _nearest(self, x: torch.Tensor) -> torch.Tensor:
        """A mask `(n, 1, h, w)` of the place that is nearest to the template."""
        side = self.template.shape[-1]
        found = distances(x, self.template[None])[0]
        row = found.flatten(1).argmin(dim=1) // found.shape[2]
        column = found.flatten(1).argmin(dim=1) % found.shape[2]
        rows, columns = torch.arange(x.shape[2]), torch.arange(x.shape[3])
        down = (rows >= row[:, None]) & (rows < row[:, None] + side)
        across = (columns >= column[:, None]) & (columns < column[:, None] + side)
        return (down[:, :, None] & across[:, None, :])[:, None]


def contrast(x: torch.Tensor) -> torch.Tensor:
    """By how much each pixel of `x: (n, c, h, w)` differs from the mean of the nine around it."""
    return x - functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


def fill(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`x: (n, c, h, w)` with the pixels of `mask: (1, h, w)` filled from around, ring by ring."""
    known, around = (~mask).to(x.dtype)[None], x.new_ones(1, 1, 3, 3)
    filled = x * known
    while not bool(known.all()):
        near = functional.conv2d(known, around, padding=1)
        total = functional.conv2d(filled.flatten(0, 1)[:, None], around, padding=1).view_as(x)
        ring = (near > 0) & (known == 0)
        if not bool(ring.any()):
            break  # all of the picture is masked
        filled = torch.where(ring, total / near.clamp_min(1), filled)
        known = known + ring.to(x.dtype)
    return filled


def distances(x: torch.Tensor, templates: torch.Tensor) -> torch.Tensor:
    """The mean squared distance of every place of `x` to each of `templates: (t, c, s, s)`, `(t, n, h - s, w - s)`."""
    size = templates[0].numel()
    squares = functional.conv2d(x.square(), torch.ones_like(templates[:1]))
    products = functional.conv2d(x, templates)
    found = (squares - 2 * products + templates.square().sum(dim=(1, 2, 3))[:, None, None]) / size
    return found.clamp_min(0).transpose(0, 1)


def spectrum(x: torch.Tensor) -> torch.Tensor:
    """The coefficients of `x: (n, c, h, w)` by frequency, `(n, c, frequencies)`."""
    found: torch.Tensor = torch.fft.rfft2(x.float(), norm="ortho").flatten(2)
    return found


def within(x: torch.Tensor, bounds: Bounds) -> torch.Tensor:
    """Cut off at the model's bounds."""
    return x if bounds is None else x.clamp(*bounds)


def _range(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The values between which 96 % of each channel lie, each `(n, c, 1, 1)`."""
    ordered = x.flatten(2).sort(dim=2).values
    last = ordered.shape[2] - 1
    low, high = ordered[..., round(0.02 * last)], ordered[..., round(0.98 * last)]
    return low[..., None, None], high[..., None, None]
