"""The four changes against scipy, Pillow's colours and closed forms; what is lost is counted on the same examples."""

from __future__ import annotations

import colorsys

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from torch import nn

from modelkeep import Data, Model
from modelkeep.audit.corruptions import CheckCorruptions, add_noise, blur, brighten, compress


def test_noise_has_its_deviation_and_the_seed_decides() -> None:
    grey = torch.full((1, 1, 200, 200), 0.5)
    assert abs(float(add_noise(grey, 1, 0).std()) - 0.08) < 0.002
    assert torch.equal(add_noise(grey, 1, 3), add_noise(grey, 1, 3))


def test_blur_is_scipys() -> None:
    x = torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    wanted = gaussian_filter(x[0, 0].numpy(), 1.0, mode="nearest", truncate=3.0)
    np.testing.assert_allclose(blur(x, 2, 0)[0, 0].numpy(), wanted, atol=1e-5)


def test_brightness_raises_the_value_of_hsv_and_keeps_the_colour() -> None:
    x = torch.tensor([0.2, 0.4, 0.6]).view(1, 3, 1, 1)
    hue, saturation, value = colorsys.rgb_to_hsv(0.2, 0.4, 0.6)
    wanted = colorsys.hsv_to_rgb(hue, saturation, value + 0.15)
    np.testing.assert_allclose(brighten(x, 1, 0).flatten().numpy(), wanted, atol=1e-5)
    assert float(brighten(torch.zeros(1, 3, 1, 1), 1, 0).max()) == np.float32(0.15)


def test_compression_changes_more_at_lower_quality() -> None:
    x = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    weak, strong = ((compress(x, strength, 0) - x).abs().mean() for strength in (0, 2))
    assert weak < strong


class Checkered(nn.Module):
    """Sees a fine pattern, which a blur wipes out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = (x[:, :, :, 1:] - x[:, :, :, :-1]).abs().mean(dim=(1, 2, 3)) - 0.5
        return torch.stack([-fine, fine], dim=1)


def test_a_model_that_sees_fine_patterns_only_falls_to_blur() -> None:
    model = Model(Checkered(), input_shape=(1, 8, 8), classes=("flat", "fine"))
    fine = (torch.arange(8) % 2).float().expand(1, 8, 8)
    x = torch.stack([fine if i % 2 else torch.full((1, 8, 8), 0.5) for i in range(60)])
    section = CheckCorruptions()(model, Data(x, torch.arange(60) % 2, model.classes, bounds=(0.0, 1.0)))
    (finding,) = section.findings
    assert (finding.id, finding.severity) == ("corruptions.fragile", "medium")
    assert finding.title.startswith("Blur")
    assert finding.outcomes is not None
    assert finding.outcomes.well.count("0") == 30
    assert "from 100.0 % to 50.0 %" in finding.measured
    assert len(section.pictures) == 2


def test_a_table_is_refused_in_a_sentence() -> None:
    model = Model(nn.Linear(4, 2), input_shape=(4,), classes=2)
    assert "pictures" in CheckCorruptions().obstacle(model, Data(torch.rand(4, 4), torch.zeros(4).long(), ("0", "1")))
