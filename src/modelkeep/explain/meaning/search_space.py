"""The inputs among which `visualise` searches: how one is made of free parameters, and how it is changed at random.

After Olah2017, which Leino2022 follows in appendix D.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.examples import mean_and_spread
from modelkeep.core.method import check_settings, setting
from modelkeep.core.model import Model

# The square root of the covariance of the colours of natural images (Olah2017), scaled so that its longest
# column has length 1: equal steps along its columns change colours as natural images do.
COLOURS = torch.tensor([[0.26, 0.09, 0.02], [0.27, 0.00, -0.05], [0.27, -0.09, 0.03]]) / 0.4620


@dataclass(frozen=True)
class Transformations:
    """Each step sees the image turned, scaled and moved at random, so that what is found does not depend on a pixel.

    The changes of size and place are shares of the image's side, so that they suit every size.
    """

    rotation: float = setting("The largest angle in degrees.", default=10.0, at_least=0, at_most=180)
    scaling: float = setting("The largest change of the size.", default=0.1, at_least=0, at_most=0.9)
    jitter: float = setting("The largest move.", default=1 / 16, at_least=0, at_most=0.5)

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, image: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """One random transformation of `image: (1, c, h, w)`; what comes in at the edges is mirrored."""
        if self.rotation == self.scaling == self.jitter == 0:
            return image
        height, width = image.shape[2:]
        turn, size, down, right = (2 * torch.rand(4, generator=generator, dtype=torch.float64) - 1).tolist()
        angle, size = math.radians(self.rotation * turn), 1 + self.scaling * size
        cosine, sine = size * math.cos(angle), size * math.sin(angle)
        # In coordinates from -1 to 1 along each side, where a turn must know how the sides compare.
        affine = [
            [cosine, -sine * height / width, 2 * self.jitter * right],
            [sine * width / height, cosine, 2 * self.jitter * down],
        ]
        theta = torch.tensor([affine], dtype=image.dtype, device=image.device)
        grid = functional.affine_grid(theta, list(image.shape), align_corners=False)
        return functional.grid_sample(image, grid, padding_mode="reflection", align_corners=False)


def from_spectrum(spectrum: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The image `(..., h, w)` of a spectrum `(..., h, w // 2 + 1, 2)` whose entries are scaled by 1/frequency.

    Natural images have such a spectrum, so equal steps in all entries change an image as natural images differ.
    """
    scaled = torch.view_as_complex(spectrum.contiguous()) * _scale(height, width, spectrum)
    image: torch.Tensor = torch.fft.irfft2(scaled, s=(height, width), norm="ortho")
    return image


def to_spectrum(image: torch.Tensor) -> torch.Tensor:
    """The spectrum from which `from_spectrum` makes the image."""
    height, width = image.shape[-2:]
    return torch.view_as_real(torch.fft.rfft2(image, norm="ortho") / _scale(height, width, image))


def _scale(height: int, width: int, like: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.fft.fftfreq(height, dtype=like.dtype), torch.fft.rfftfreq(width, dtype=like.dtype)
    frequency = torch.sqrt(rows[:, None] ** 2 + columns**2)
    # The mean has frequency 0; it is scaled as the longest wave. A quarter, so that one rate suits pixels too.
    return (0.25 / frequency.clamp(min=1 / max(height, width))).to(like.device)


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Inputs `(1, *shape)` as a function of free parameters.

    Within `bounds` by a sigmoid; without them, no further from `centre` than examples typically are, with each value
    counted in its `spread`.
    """

    bounds: tuple[float, float] | None
    centre: torch.Tensor
    spread: torch.Tensor
    fourier: bool

    def start(self, generator: torch.Generator, amplitude: float) -> torch.Tensor:
        """Parameters of seeded noise."""
        shape: tuple[int, ...] = (1, *self.centre.shape)
        if self.fourier:
            shape = (*shape[:-1], shape[-1] // 2 + 1, 2)
        # Drawn on the CPU, so that every device sees the same numbers.
        noise = torch.randn(shape, generator=generator, dtype=self.centre.dtype)
        return (amplitude * noise).to(self.centre.device)

    def decode(self, parameter: torch.Tensor) -> torch.Tensor:
        """The input of these parameters."""
        free = parameter
        if self.fourier:
            free = from_spectrum(parameter, *self.centre.shape[-2:])
            if self._coloured:
                free = torch.einsum("ij,njhw->nihw", COLOURS.to(free), free)
        if self.bounds is not None:
            low, high = self.bounds
            return low + (high - low) * torch.sigmoid(free)
        free = free * (self.spread > 0)
        length: torch.Tensor = torch.linalg.vector_norm(free).clamp(min=1e-12)
        return self.centre + self.spread * free * (self._radius / length).clamp(max=1.0)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """Parameters that give `x`, as nearly as the space allows."""
        if self.bounds is not None:
            low, high = self.bounds
            free = torch.logit((x - low) / (high - low), eps=0.01)  # at the very edge the sigmoid has no slope
        else:
            free = self.deviation(x)
        if not self.fourier:
            return free
        if self._coloured:
            free = torch.einsum("ij,njhw->nihw", torch.linalg.inv(COLOURS).to(free), free)
        return to_spectrum(free)

    def noise(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """`n` inputs without any structure: uniform within the bounds, and else normal as the data."""
        shape = (n, *self.centre.shape)
        if self.bounds is not None:
            low, high = self.bounds
            drawn = torch.rand(shape, generator=generator, dtype=self.centre.dtype)
            return (low + (high - low) * drawn).to(self.centre.device)
        drawn = torch.randn(shape, generator=generator, dtype=self.centre.dtype).to(self.centre.device)
        return self.centre + self.spread * drawn

    def deviation(self, x: torch.Tensor) -> torch.Tensor:
        """How far each value is from its centre, in spreads; 0 for values that never vary."""
        return torch.where(self.spread > 0, (x - self.centre) / self.spread.clamp(min=1e-30), 0.0)

    @property
    def _coloured(self) -> bool:
        return self.centre.shape[0] == 3

    @property
    def _radius(self) -> torch.Tensor:
        # Independent standardised values have this distance from their mean, in the root of the mean square.
        return (self.spread > 0).sum().to(self.spread.dtype).sqrt()


def search_space(model: Model, data: Data | None, *, fourier: bool) -> SearchSpace:
    """The space for a model: in its bounds, or around the mean of the data where it has none."""
    if data is not None:
        centre, spread = mean_and_spread(data.x)
    elif model.bounds is not None:
        low, high = model.bounds
        centre = torch.full(model.input_shape, (low + high) / 2, dtype=torch.float64)
        spread = torch.full_like(centre, (high - low) / math.sqrt(12))  # as if all values were equally likely
    else:
        raise InputError(
            "The model says no bounds for its inputs, so there is no telling how large an optimised input may be. "
            "Give data=…, whose spread then says it, or make the model with bounds=(low, high)."
        )
    centre, spread = (t.to(model.device, model.dtype) for t in (centre, spread))
    return SearchSpace(model.bounds, centre, spread, fourier)
