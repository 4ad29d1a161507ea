"""Augmentation: seeded random changes of images that leave their labels true."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import torch
from torch.nn.functional import affine_grid, grid_sample

from modelkeep.core.errors import InputError, bad_parameter


@dataclass(frozen=True)
class Augmentation:
    """The largest changes; each image draws its own, uniformly, as `ImageDataGenerator` of Keras does.

    `rotation` and `shear` are in degrees, `shift` is a share of the width and of the height, `zoom` a share of the
    size (each axis for itself), `brightness` is added to all values. What comes in from outside repeats the edge.
    """

    flip: bool = False
    shift: float = 0.0
    rotation: float = 0.0
    shear: float = 0.0
    zoom: float = 0.0
    brightness: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.zoom < 1:
            raise bad_parameter("Augmentation", "zoom", "at least 0 and below 1", self.zoom)
        if min(self.shift, self.rotation, self.shear, self.brightness) < 0:
            raise bad_parameter("Augmentation", "every", "at least 0", self)

    def __call__(self, x: torch.Tensor, bounds: tuple[float, float] | None, generator: torch.Generator) -> torch.Tensor:
        """Changed copies of `x: (n, c, h, w)`, within `bounds`. `generator` is one of the CPU."""
        if x.dim() != 4:
            raise InputError(f"Only images (n, c, h, w) can be augmented. Got inputs of shape {tuple(x.shape)}.")
        # Always all the numbers, in the same order: what one image draws does not depend on what is switched on.
        drawn = torch.rand(8, len(x), generator=generator).to(x) * 2 - 1
        if self.shift or self.rotation or self.shear or self.zoom:
            matrices = self._matrices(drawn[:6], x.shape[2] / x.shape[3])
            grid = affine_grid(matrices, list(x.shape), align_corners=False)
            x = grid_sample(x, grid, padding_mode="border", align_corners=False)
        if self.flip:
            x = torch.where((drawn[6] < 0).view(-1, 1, 1, 1), x.flip(3), x)
        if self.brightness:
            x = x + self.brightness * drawn[7].view(-1, 1, 1, 1)
            x = x if bounds is None else x.clamp(*bounds)
        return x

    def _matrices(self, drawn: torch.Tensor, aspect: float) -> torch.Tensor:
        """(n, 2, 3): rotation · shift · shear · zoom, from a place in the new image to one in the old.

        The places are those of `affine_grid`: each axis spans [-1, 1] whatever its length, so what crosses from one
        axis to the other is scaled by `aspect`, height over width.
        """
        angle, shear = drawn[0] * self.rotation * pi / 180, drawn[1] * self.shear * pi / 180
        across, down = 1 + drawn[2] * self.zoom, 1 + drawn[3] * self.zoom
        right, below = 2 * self.shift * drawn[4], 2 * self.shift * drawn[5]
        cos, sin = angle.cos(), angle.sin()
        rows = [
            cos * across,
            -(angle + shear).sin() * down * aspect,
            cos * right - sin * below * aspect,
            sin * across / aspect,
            (angle + shear).cos() * down,
            sin * right / aspect + cos * below,
        ]
        return torch.stack(rows, dim=1).view(-1, 2, 3)


# Leino2022, appendix A.4: the pipelines that its tables call "default" and "tfds".
DEFAULT = Augmentation(flip=True, shift=0.2, rotation=20.0, shear=0.1, zoom=0.1)
TFDS = Augmentation(flip=True, zoom=0.25, brightness=0.2)
