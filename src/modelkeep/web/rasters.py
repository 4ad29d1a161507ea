"""Rasters: pictures and signed maps as the few bytes from which a page paints them."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import torch
from torch.nn import functional

MOST_PIXELS = 224  # along a side; what is larger is shown smaller
THUMB = 64  # along a side, of a picture in a list
_LOUDEST = 0.995
"""A few loud pixels must not hide the rest: those above this share of all share the end of the scale."""


@dataclass(frozen=True)
class Raster:
    """A picture: the bytes of its pixels row by row, red, green and blue, as base64."""

    width: int
    height: int
    rgb: str


@dataclass(frozen=True)
class SignedMap:
    """A map of signed numbers: one signed byte each, 127 being `limit`, as base64."""

    width: int
    height: int
    limit: float
    values: str


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether an input of this shape can be shown as a picture.

    >>> is_picture((1, 8, 8)), is_picture((30,))
    (True, False)
    """
    return len(shape) == 3 and shape[0] in (1, 3)


def make_raster(image: torch.Tensor, bounds: tuple[float, float] | None, most: int = MOST_PIXELS) -> Raster:
    """The picture of `image: (1 or 3, h, w)` with values in `bounds`; without bounds, from its lowest to its highest.

    >>> make_raster(torch.tensor([[[0.0, 1.0]]]), (0.0, 1.0))
    Raster(width=2, height=1, rgb='AAAA////')
    """
    low, high = bounds if bounds is not None else (float(image.min()), float(image.max()))
    scaled = (_fit(image.detach().cpu().float(), most) - low) / max(high - low, 1e-12)
    pixels = (255 * scaled.clamp(0, 1)).round().to(torch.uint8).expand(3, -1, -1).permute(1, 2, 0).contiguous()
    return Raster(pixels.shape[1], pixels.shape[0], _base64(pixels))


def make_map(values: torch.Tensor, limit: float | None = None, most: int = MOST_PIXELS) -> SignedMap:
    """The map of `values: (h, w)`; its scale ends at `limit`, else at its own strongest values.

    >>> make_map(torch.tensor([[-2.0, 0.0, 1.0]]), limit=2.0)
    SignedMap(width=3, height=1, limit=2.0, values='gQBA')
    """
    drawn = _fit(values.detach().cpu().float()[None], most)[0]
    end = limit if limit is not None else loudness(drawn)
    signed = (127 * (drawn / end).clamp(-1, 1)).round().to(torch.int8).contiguous()
    return SignedMap(signed.shape[1], signed.shape[0], end, _base64(signed))


def loudness(values: torch.Tensor) -> float:
    """Where the scale of these values ends; 1 where all are 0.

    >>> loudness(torch.tensor([0.0, -3.0]))
    3.0
    """
    strength = values.abs().flatten().sort().values
    place = min(len(strength) - 1, int(_LOUDEST * len(strength)))
    return float(strength[place]) or float(strength[-1]) or 1.0


def _fit(image: torch.Tensor, most: int) -> torch.Tensor:
    """The image `(c, h, w)`, smaller where a side is longer than `most`."""
    longest = max(image.shape[1:])
    if longest <= most:
        return image
    size = [max(1, round(side * most / longest)) for side in image.shape[1:]]
    return functional.interpolate(image[None], size, mode="area")[0]


def _base64(values: torch.Tensor) -> str:
    return base64.b64encode(values.numpy().tobytes()).decode("ascii")
