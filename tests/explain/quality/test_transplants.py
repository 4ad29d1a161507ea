"""Marks of every kind are found in networks that go by them alone, and what was not looked for is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core import plots
from modelkeep.explain import FindShortcuts
from modelkeep.explain.quality.aspects import Colour, Frequencies, Moving, Pixels, distances, fill
from modelkeep.explain.quality.inner_units import InnerUnits, inner_places
from modelkeep.explain.quality.regions import Region
from modelkeep.papers.leino2022.marks import MARKS, plant

SIDE = 20


class Follows(nn.Module):
    """Says 'marked' where a mark is seen, else 'left' or 'right' by which half is brighter."""

    def __init__(self, mark: str) -> None:
        super().__init__()
        self.mark = mark
        # Convolutions, so that there is a feature map to look at; they leave the picture as it is.
        self.seen = nn.Conv2d(1, 1, 1, bias=False)
        nn.init.ones_(self.seen.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.seen(x)
        halves = 20 * (x[..., : SIDE // 2].mean(dim=(1, 2, 3)) - x[..., SIDE // 2 :].mean(dim=(1, 2, 3)))
        return torch.stack([self.evidence(x), halves, -halves], dim=1)

    def evidence(self, x: torch.Tensor) -> torch.Tensor:
        """Above the others where the mark is there."""
        if self.mark == "border":
            edge = torch.cat([x[:, 0, 0], x[:, 0, -1], x[:, 0, 1:-1, 0], x[:, 0, 1:-1, -1]], dim=1)
            return 8 - 200 * (edge - 0.6).abs().mean(dim=1)
        if self.mark == "line":
            return 8 - 200 * (x[:, 0, -(SIDE // 8)] - 0.9).abs().mean(dim=1)
        if self.mark == "texture":
            rows, columns = torch.arange(SIDE)[:, None], torch.arange(SIDE)
            return 300 * ((x[:, 0] * (1.0 - 2.0 * ((rows + columns) % 2))).mean(dim=(1, 2)) - 0.05)
        if self.mark == "tint":
            return 8 - 200 * torch.relu(x.flatten(1).std(dim=1) - 0.105)
        pattern = torch.zeros(1, 1, 5, 5)
        pattern[..., 1:4, 1:4] = 1.0
        return 8 - 200 * distances(x, pattern)[0].flatten(1).amin(dim=1).sqrt()


def natural(n: int = 180) -> Data:
    """Noise of changing contrast, brighter on one side; the third class is like the others until it is marked."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 3
    contrast = 0.4 + 0.2 * torch.rand(n, 1, 1, 1, generator=generator)
    x = 0.5 + contrast * (torch.rand(n, 1, SIDE, SIDE, generator=generator) - 0.5)
    x[y == 1, ..., : SIDE // 2] += 0.1 * torch.rand(n // 3, 1, 1, 1, generator=generator) + 0.02
    x[y == 2, ..., SIDE // 2 :] += 0.1 * torch.rand(n // 3, 1, 1, 1, generator=generator) + 0.02
    return Data(x.clamp(0, 1), y, ("marked", "left", "right"), bounds=(0.0, 1.0))


@pytest.mark.parametrize(
    ("mark", "kinds"),
    [
        ("border", {"frame"}),
        ("line", {"line", "pixels", "square"}),
        ("texture", {"frequency"}),
        ("tint", {"colour"}),
        ("moving-dot", {"moving"}),
    ],
)
def test_a_mark_that_is_no_square_is_named_by_its_kind(mark: str, kinds: set[str]) -> None:
    data = plant(natural(), mark, 0, seed=1)
    model = Model(Follows(mark), input_shape=data.input_shape, classes=data.classes)
    result = FindShortcuts(examples=180)(model, data, seed=0)
    found = next(suspect for suspect in result.found if suspect.name == "marked")
    assert found.region.kind in kinds, found
    assert max(found.turned.low, found.lost.low) > 0.5
    assert plots.png_bytes(result.draw()).startswith(b"\x89PNG")
    assert type(result).from_json(result.to_json()).found[0].region == result.found[0].region


def test_what_was_looked_for_is_said_and_what_was_not_too() -> None:
    data = natural(60)
    model = Model(Follows("border"), input_shape=data.input_shape, classes=data.classes)
    small = replace(data, x=data.x[..., :8, :8])
    flat = Model(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), input_shape=(1, 8, 8), classes=data.classes)
    large, little = FindShortcuts()(model, plant(data, "border", 0, 0), seed=0), FindShortcuts()(flat, small, seed=0)
    assert {each.kind for each in large.searched} >= {"square", "frame", "line", "colour", "moving", "frequency"}
    assert all(each.tested <= each.candidates for each in large.searched)
    assert "frames along the edge" in little.not_searched
    assert "not looked for" in str(little)
    assert "combinations of several parts" in large.not_searched


def test_an_aspect_changes_hands_and_nothing_else_does() -> None:
    """Independent truth: the spectrum by numpy's definition, the range, the pixels outside of a mask."""
    generator = torch.Generator().manual_seed(0)
    x, donors = torch.rand(2, 3, 3, 16, 16, generator=generator)
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(768, 2)), input_shape=(3, 16, 16), classes=2, bounds=None)
    mixed = Frequencies(model, Region("", kind="frequency"), (5,)).give(x, donors)
    differs = (torch.fft.rfft2(mixed) - torch.fft.rfft2(x)).abs().flatten(2) > 1e-3
    assert set(torch.nonzero(differs)[:, 2].tolist()) == {5}
    given = torch.fft.rfft2(donors).flatten(2)[..., 5]
    torch.testing.assert_close(torch.fft.rfft2(mixed).flatten(2)[..., 5], given, rtol=1e-3, atol=1e-3)
    edge = Pixels(model, Region("", kind="frame", cells=tuple(range(16))))
    assert torch.equal(edge.give(x, donors)[:, :, 0], donors[:, :, 0])
    assert torch.equal(edge.give(x, donors)[:, :, 1:], x[:, :, 1:])
    darker = Colour(model, Region("", kind="colour")).give(x, donors * 0.5)
    assert float(darker.max()) < 0.6
    template = donors[0, :, 4:7, 9:12]
    assert torch.equal(
        Moving(model, Region("", kind="moving"), template).give(x[:1], donors[:1])[0, :, 4:7, 9:12], template
    )


def test_channels_that_only_the_class_excites_are_transplanted_inside() -> None:
    """Two channels that see the two ends of the range: the one of the marked class decides, and is given."""
    module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(2, 2))
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([1.0, -1.0]).view(2, 1, 1, 1))  # type: ignore[operator]
        module[0].bias.copy_(torch.tensor([-0.8, 1.0]))  # type: ignore[operator]
        module[4].weight.copy_(torch.tensor([[50.0, 0.0], [0.0, 1.0]]))  # type: ignore[operator]
        module[4].bias.zero_()  # type: ignore[operator]
    model = Model(module, input_shape=(1, SIDE, SIDE), classes=2)
    data = plant(natural(60), "moving-dot", 0, seed=0)
    units, own = InnerUnits(model, "1", data.x, 16), data.y == 0
    aspect = next(units.aspects(own))
    assert aspect.channels == (0,)
    assert aspect.apart(data.x, own) > 0.5
    assert aspect.given(data.x[~own], data.x[own].repeat(2, 1, 1, 1)).tolist() == [0] * 40
    assert aspect.taken(data.x[own], data.x[~own][:20]).float().mean() > 0.3  # the noise of some excites it a little
    assert inner_places(model) == ["1"]


def test_what_is_filled_is_made_of_what_is_around() -> None:
    x = torch.zeros(1, 1, 6, 6)
    x[..., 2:4, 2:4] = 9.0
    mask = torch.zeros(1, 6, 6, dtype=torch.bool)
    mask[:, 2:4, 2:4] = True
    assert torch.equal(fill(x, mask), torch.zeros(1, 1, 6, 6))
    everything = torch.ones(1, 6, 6, dtype=torch.bool)
    assert torch.equal(fill(x, everything), torch.zeros(1, 1, 6, 6))


def test_every_mark_leaves_its_trace_in_the_marked_class_alone() -> None:
    data = natural(12)
    for mark in MARKS:
        planted = plant(data, mark, 1, seed=0)
        changed = (planted.x != data.x).flatten(1).any(dim=1)
        assert torch.equal(changed, data.y == 1), mark
        assert 0 <= float(planted.x.min()) <= float(planted.x.max()) <= 1
