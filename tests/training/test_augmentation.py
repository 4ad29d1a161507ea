"""Augmentation against what can be said exactly about single changes."""

from __future__ import annotations

import pytest
import torch

from modelkeep.core.errors import InputError
from modelkeep.training import DEFAULT, TFDS, Augmentation


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(40, 3, 8, 6, generator=generator(5))


def test_nothing_switched_on_changes_nothing(images: torch.Tensor) -> None:
    assert torch.equal(Augmentation()(images, (0.0, 1.0), generator()), images)


def test_flip_mirrors_about_half_of_the_images(images: torch.Tensor) -> None:
    flipped = Augmentation(flip=True)(images, None, generator())
    mirrored = [torch.equal(new, old.flip(2)) for new, old in zip(flipped, images, strict=True)]
    kept = [torch.equal(new, old) for new, old in zip(flipped, images, strict=True)]
    assert all(a != b for a, b in zip(mirrored, kept, strict=True))
    assert 10 < sum(mirrored) < 30


def test_brightness_adds_one_number_per_image_and_stays_within_the_bounds(images: torch.Tensor) -> None:
    free = Augmentation(brightness=0.2)(images, None, generator()) - images
    assert free.flatten(1).std(dim=1).max() < 1e-6
    assert 0.1 < free.abs().max() <= 0.2
    bounded = Augmentation(brightness=0.2)(images, (0.0, 1.0), generator())
    assert torch.allclose(bounded, (images + free[:, :1, :1, :1]).clamp(0, 1), atol=1e-6)
    assert bounded.min() == 0
    assert bounded.max() == 1


def test_shift_moves_a_ramp_by_at_most_its_share() -> None:
    # On a plane of slope 1 per pixel a shift by s pixels adds s, where no edge is near.
    down, across = torch.meshgrid(torch.arange(40.0), torch.arange(20.0), indexing="ij")
    ramps = torch.stack([down, across]).expand(50, 2, 40, 20)
    moved = (Augmentation(shift=0.2)(ramps, None, generator()) - ramps)[:, :, 10:30, 5:15]
    assert moved.flatten(2).std(dim=2).max() < 1e-3
    by = moved[:, :, 0, 0]
    assert by.abs().max(dim=0).values.tolist() == pytest.approx([8, 4], rel=0.1)
    assert (by.abs().max(dim=0).values <= torch.tensor([8, 4]) + 1e-4).all()


def test_rotation_keeps_distances_from_the_centre_also_where_the_image_is_not_square() -> None:
    down, across = torch.meshgrid(torch.arange(60.0) - 29.5, torch.arange(40.0) - 19.5, indexing="ij")
    planes = torch.stack([down, across]).expand(20, 2, 60, 40)
    turned = Augmentation(rotation=30.0)(planes, None, generator())[:, :, 20:40, 10:30]
    inner = planes[:, :, 20:40, 10:30]
    assert torch.allclose(turned.square().sum(1), inner.square().sum(1), atol=1e-2)
    sines = (turned[:, 0] * inner[:, 1] - turned[:, 1] * inner[:, 0]) / inner.square().sum(1)
    angles = sines.flatten(1).asin().rad2deg()
    assert angles.std(dim=1).max() < 1e-2
    assert 20 < angles.abs().max() <= 30.001


def test_zoom_scales_each_axis_about_the_centre() -> None:
    down, across = torch.meshgrid(torch.arange(60.0) - 29.5, torch.arange(40.0) - 19.5, indexing="ij")
    planes = torch.stack([down, across]).expand(30, 2, 60, 40)
    ratios = (Augmentation(zoom=0.25)(planes, None, generator()) / planes)[:, :, 20:40, 10:30]
    assert ratios.flatten(2).std(dim=2).max() < 1e-3
    assert 0.75 <= ratios.min() < 0.85
    assert 1.15 < ratios.max() <= 1.2501


@pytest.mark.parametrize("augmentation", [DEFAULT, TFDS])
def test_the_thesis_pipelines_are_seeded_and_stay_in_range(augmentation: Augmentation, images: torch.Tensor) -> None:
    once, again, other = (augmentation(images, (0.0, 1.0), generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert once.shape == images.shape
    assert 0 <= once.min() < once.max() <= 1


def test_only_images_and_sensible_ranges() -> None:
    with pytest.raises(InputError, match="images"):
        DEFAULT(torch.zeros(3, 4), None, generator())
    with pytest.raises(InputError, match="zoom"):
        Augmentation(zoom=1.0)
    with pytest.raises(InputError):
        Augmentation(shift=-0.1)
