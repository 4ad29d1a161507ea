"""JPEG: as Pillow's codec does it, on any number of channels and in any units."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import interpolate

from modelkeep.harden.jpeg import Jpeg


def smooth_image(channels: int) -> torch.Tensor:
    """An image of 45×52 pixels, neither of which is a multiple of 8."""
    coarse = torch.rand(1, channels, 5, 6, generator=torch.Generator().manual_seed(channels))
    return interpolate(coarse, size=(45, 52), mode="bicubic", align_corners=False).clamp(0, 1)


@pytest.mark.parametrize("quality", [10, 50, 75, 95])
@pytest.mark.parametrize("channels", [1, 3])
def test_it_is_what_pillow_makes(channels: int, quality: int) -> None:
    image = smooth_image(channels)
    pixels = (image[0] * 255).round().byte().permute(1, 2, 0).numpy()
    file = BytesIO()
    Image.fromarray(pixels.squeeze(-1) if channels == 1 else pixels).save(file, "JPEG", quality=quality, subsampling=0)
    expected = np.asarray(Image.open(file)).reshape(pixels.shape).astype(float)
    found = (Jpeg(quality)(image)[0] * 255).permute(1, 2, 0).numpy()
    # The codec computes in integers: a coefficient halfway between two may be rounded to the other.
    assert np.abs(found - expected).mean() < 0.4
    assert np.abs(found - expected).mean() < 0.5 * np.abs(pixels - expected).mean()
    assert (np.abs(found - expected) > 3).mean() < 0.05


def test_other_numbers_of_channels_are_as_many_grey_images_and_units_do_not_matter() -> None:
    image = smooth_image(4)
    apart = torch.cat([Jpeg(30)(image[:, i : i + 1]) for i in range(4)], dim=1)
    assert torch.equal(Jpeg(30)(image), apart)
    moved = Jpeg(30, bounds=(-2.0, 3.0))(5 * image - 2)
    assert torch.allclose(moved, 5 * Jpeg(30)(image) - 2, atol=1e-5)


def test_a_batch_is_compressed_image_by_image() -> None:
    batch = torch.cat([smooth_image(3), smooth_image(3).flip(2)])
    assert torch.equal(Jpeg(40)(batch)[1:], Jpeg(40)(batch[1:]))
