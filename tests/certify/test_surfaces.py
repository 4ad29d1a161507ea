"""The surface on models whose regions are known in closed form, and the pictures of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.certify.guarantees import Affinity, RelaxedTopK, Standard
from modelkeep.certify.surfaces import Surface, draw_surfaces, surface
from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.core.results import Result
from modelkeep.papers.leino2022.overlapping_classes import CENTRES, REACH, draw_points


def linear(weight: list[list[float]], bias: list[float], classes: tuple[str, ...]) -> Model:
    module = nn.Linear(2, len(bias))
    with torch.no_grad():
        module.weight.copy_(torch.tensor(weight))
        module.bias.copy_(torch.tensor(bias))
    return Model(module, input_shape=(2,), classes=classes)


@pytest.fixture
def thirds() -> Model:
    """f = (-x, 0, x): left, middle, right, with borders at x = -1 and x = 1 once the middle has a head start of 1."""
    return linear([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]], [0.0, 1.0, 0.0], ("left", "middle", "right"))


@pytest.fixture
def points() -> Data:
    x = torch.tensor([[-2.0, 0.0], [-1.0, 1.0], [0.0, 0.0], [1.05, 0.5], [2.0, 1.0]])
    return Data(x, torch.tensor([0, 0, 1, 2, 2]), ("left", "middle", "right"), features=("across", "up"))


def regions(found: Surface) -> dict[tuple[int, ...], tuple[float, float]]:
    """From where to where each set is named along the first feature."""
    left, right = found.extent[:2]
    across = torch.linspace(left, right, found.sets.shape[1])
    assert (found.sets == found.sets[:1]).all()  # the second feature does not matter
    spans = {}
    for members in found.count_sets():
        mask = torch.zeros(3, dtype=torch.bool)
        mask[list(members)] = True
        where = across[(found.sets[0] == mask).all(dim=1)]
        spans[members] = (where.min().item(), where.max().item())
    return spans


def test_standard_rejects_the_radius_around_each_border(thirds: Model, points: Data) -> None:
    found = surface(thirds, Standard(), 0.2, points, resolution=421)
    spans, cell = regions(found), 4.4 / 420
    assert list(spans) == [(0,), (1,), (2,), ()]
    assert spans[0,][1] == pytest.approx(-1.2, abs=2 * cell)
    assert spans[1,] == pytest.approx((-0.8, 0.8), abs=2 * cell)
    assert spans[2,][0] == pytest.approx(1.2, abs=2 * cell)
    assert found.rejected.value == 0.4  # the points at -1 and 1.05
    assert found.extent == pytest.approx((-2.2, 2.2, -0.05, 1.05))


def test_top_two_names_both_sides_of_a_border(thirds: Model, points: Data) -> None:
    spans, cell = regions(surface(thirds, RelaxedTopK(2), 0.2, points, resolution=421)), 4.4 / 420
    assert spans[0, 1] == pytest.approx((-1.2, -0.8), abs=2 * cell)
    assert spans[1, 2] == pytest.approx((0.8, 1.2), abs=2 * cell)
    assert () not in spans
    together = Affinity([("left", "middle"), ("right",)], thirds.classes)
    spans = regions(surface(thirds, together, 0.2, points, resolution=421))
    assert (0, 1) in spans
    assert spans[()] == pytest.approx((0.8, 1.2), abs=2 * cell)


def test_it_reads_back_and_says_what_is_named(thirds: Model, points: Data) -> None:
    found = surface(thirds, RelaxedTopK(2), 0.2, points, resolution=20)
    again = Result.from_json(found.to_json())
    assert isinstance(again, Surface)
    assert torch.equal(again.sets, found.sets)
    assert again.rows() == found.rows()
    assert "left or middle" in str(found)


def test_the_picture_stripes_mixtures_and_names_them(thirds: Model, points: Data) -> None:
    found = [surface(thirds, guarantee, 0.2, points, resolution=80) for guarantee in (Standard(), RelaxedTopK(2))]
    drawn = draw_surfaces(found)
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert names == ["left", "middle", "right", "left or middle", "middle or right", "rejected"]
    colours = [
        {tuple(pixel) for pixel in torch.tensor(ax.images[0].get_array()).flatten(0, 1).tolist()} for ax in drawn.axes
    ]
    assert len(colours[0]) == 4  # three classes and grey
    assert len(colours[1]) == 3  # mixtures are stripes of their classes' colours
    assert [ax.get_title(loc="left") for ax in drawn.axes] == ["standard, radius 0.2", "RT2, radius 0.2"]
    assert plots.png_bytes(found[0].draw()).startswith(b"\x89PNG")


def test_many_classes_have_colours_too() -> None:
    classes = tuple("abcdefgh")
    angles = torch.arange(8) * torch.pi / 4
    model = linear(torch.stack((angles.cos(), angles.sin()), dim=1).tolist(), [0.0] * 8, classes)
    data = Data(torch.stack((angles.cos(), angles.sin()), dim=1), torch.arange(8), classes)
    drawn = surface(model, Standard(), 0.1, data, resolution=30).draw()
    assert len(drawn.legends[0].get_texts()) == 9


def test_what_cannot_be_drawn_is_refused(thirds: Model, points: Data, small_cnn: Model) -> None:
    images = Data(torch.zeros(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64), small_cnn.classes)
    with pytest.raises(InputError, match=r"two features. This one takes \(1, 8, 8\)"):
        surface(small_cnn, Standard(), 0.1, images)
    with pytest.raises(InputError, match="'radius' parameter of surface"):
        surface(thirds, Standard(), -1.0, points)
    with pytest.raises(InputError, match="'resolution' parameter of surface"):
        surface(thirds, Standard(), 0.1, points, resolution=1)
    with pytest.raises(InputError, match="side by side"):
        draw_surfaces([])


def test_overlapping_classes_meet_their_neighbours_only() -> None:
    data = draw_points(4000, seed=3)
    assert torch.equal(data.x, draw_points(4000, seed=3).x)
    assert not torch.equal(data.x, draw_points(4000, seed=4).x)
    assert data.y.bincount().tolist() == [1000] * 4
    inside = torch.cdist(data.x, torch.tensor(list(CENTRES.values()))) <= REACH * 1.000001
    assert inside[torch.arange(4000), data.y].all()
    met = {(i, j) for i in range(4) for j in range(4) if i != j and inside[data.y == i, j].any()}
    assert met == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    with pytest.raises(InputError, match="'n' parameter of overlapping"):
        draw_points(0, seed=0)
