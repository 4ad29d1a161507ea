"""Rasters hold the pixels and signs of what they were made of."""

from __future__ import annotations

import base64

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.web.rasters import THUMB, is_picture, loudness, make_map, make_raster


def test_a_picture_comes_back_pixel_by_pixel() -> None:
    image = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(0))
    made = make_raster(image, (0.0, 1.0))
    pixels = np.frombuffer(base64.b64decode(made.rgb), dtype=np.uint8).reshape(5, 7, 3)
    np.testing.assert_allclose(pixels / 255, image.permute(1, 2, 0), atol=0.5 / 255 + 1e-6)


def test_without_bounds_the_darkest_value_is_black_and_the_brightest_white() -> None:
    made = make_raster(torch.tensor([[[-3.0, 5.0]]]), None)
    assert base64.b64decode(made.rgb) == b"\0\0\0\xff\xff\xff"


def test_a_large_picture_is_shown_smaller_in_its_own_shape() -> None:
    made = make_raster(torch.rand(1, 100, 200), (0.0, 1.0), THUMB)
    assert (made.height, made.width) == (32, 64)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=64))
def test_the_sign_of_every_value_that_can_be_seen_is_kept(values: list[float]) -> None:
    made = make_map(torch.tensor([values]))
    drawn = np.frombuffer(base64.b64decode(made.values), dtype=np.int8)
    for value, byte in zip(values, drawn.tolist(), strict=True):
        assert np.sign(byte) == (np.sign(value) if abs(value) > made.limit / 127 else np.sign(byte))
        assert abs(byte - 127 * np.clip(value / made.limit, -1, 1)) <= 0.51


def test_one_loud_pixel_does_not_hide_the_rest() -> None:
    values = torch.ones(1000)
    values[0] = 1e9
    assert loudness(values) == 1.0
    assert loudness(torch.zeros(4)) == 1.0


def test_what_is_a_picture() -> None:
    assert is_picture((3, 4, 4))
    assert not is_picture((4, 4, 4))
