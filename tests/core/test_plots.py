"""The pictures show what they were given, the same way each time, and leave matplotlib as it was."""

from __future__ import annotations

import base64
import subprocess
import sys
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate
from modelkeep.core.svg import svg_text


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def pictures() -> dict[str, Figure]:
    estimates = [Estimate.rate(k, 10) for k in (9, 5, 1)]
    return {
        "image_grid": plots.image_grid(noise(3, 1, 8, 8), ["a", "b", "c"], columns=2),
        "colour_grid": plots.image_grid(noise(2, 3, 6, 9)),
        "signed_heat": plots.signed_heat(noise(3, 8, 8) - 0.5, ["a", "b", "c"]),
        "heat_over_image": plots.heat_over_image(noise(2, 3, 8, 8), noise(2, 8, 8) - 0.5),
        "curve": plots.curve([0.0, 0.1, 0.2], {"PGD": estimates, "noise": estimates[::-1]}, title="t", x_label="ε"),
        "bars": plots.bars({"clean": estimates[0], "attacked": estimates[2]}, title="t", x_label="accuracy"),
    }


def arrays(figure: Figure) -> list[Any]:
    """The arrays that the figure's cells show, without the colour bar's."""
    return [np.asarray(image.get_array()) for ax in figure.axes for image in ax.get_images()]


@pytest.mark.parametrize("name", pictures())
def test_the_same_input_gives_the_same_png_without_metadata(name: str) -> None:
    first, second = plots.png_bytes(pictures()[name]), plots.png_bytes(pictures()[name])
    assert first == second
    assert first.startswith(b"\x89PNG")
    assert not any(chunk in first for chunk in (b"tEXt", b"tIME", b"iTXt"))


@pytest.mark.parametrize("name", pictures())
def test_drawing_twice_gives_the_same_png(name: str) -> None:
    figure = pictures()[name]
    assert plots.png_bytes(figure) == plots.png_bytes(figure)


def test_the_size_in_inches_is_kept(tmp_path: Any) -> None:
    path = tmp_path / "figure.png"
    path.write_bytes(plots.png_bytes(plots.figure(3, 2)))
    assert imread(path).shape[:2] == (240, 360)


def test_a_data_uri_holds_the_png_of_pictures_and_the_svg_of_a_chart() -> None:
    for name, figure in pictures().items():
        chart = name in ("curve", "bars")
        head, body = plots.data_uri(figure).split(",")
        assert head == ("data:image/svg+xml;base64" if chart else "data:image/png;base64")
        found = base64.b64decode(body, validate=True)
        assert found == (svg_text(figure).encode() if chart else plots.png_bytes(figure))


def test_no_global_state_is_touched() -> None:
    # In a process of its own: pyplot and a window system are never loaded, and the settings stay as they were.
    code = """
import sys
from modelkeep.core import plots
assert not any(name.startswith("matplotlib") for name in sys.modules), "matplotlib is loaded before it is needed"
import matplotlib
before = dict(matplotlib.rcParams)
import torch
plots.png_bytes(plots.image_grid(torch.zeros(1, 1, 4, 4)))
assert dict(matplotlib.rcParams) == before
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_images_are_shown_in_their_bounds() -> None:
    images = noise(2, 1, 4, 4) * 255
    for shown, given in zip(arrays(plots.image_grid(images, bounds=(0, 255))), images[:, 0], strict=True):
        np.testing.assert_allclose(shown, given.numpy() / 255, rtol=1e-6)
    colour = noise(1, 3, 4, 5)
    np.testing.assert_array_equal(arrays(plots.image_grid(colour))[0], colour[0].permute(1, 2, 0).numpy())
    assert arrays(plots.image_grid(torch.full((1, 1, 2, 2), 7.0)))[0].max() == 1


def test_a_grid_has_its_columns_and_titles() -> None:
    figure = plots.image_grid(noise(5, 1, 4, 4), list("abcde"), columns=3)
    assert len(figure.axes) == 6
    assert [ax.get_title() for ax in figure.axes] == [*"abcde", ""]


def test_signed_heat_is_symmetric_about_zero_on_one_scale() -> None:
    heat = torch.tensor([[[0.0, 1.0], [2.0, -4.0]], [[0.5, 0.0], [0.0, 0.0]]])
    figure = plots.signed_heat(heat)
    images = [image for ax in figure.axes for image in ax.get_images()]
    assert [image.get_clim() for image in images] == [(-4.0, 4.0)] * 2
    middle = matplotlib.colormaps[plots.DIVERGING](0.5)
    assert min(middle[:3]) > 0.95, "0 is white"
    red, blue = (matplotlib.colormaps[plots.DIVERGING](side) for side in (0.9, 0.1))
    assert red[0] > red[2]
    assert blue[2] > blue[0]


def test_all_zero_heat_can_be_drawn() -> None:
    assert plots.png_bytes(plots.signed_heat(torch.zeros(1, 3, 3)))
    assert plots.png_bytes(plots.heat_over_image(torch.zeros(1, 1, 3, 3), torch.zeros(1, 3, 3)))


def test_heat_over_an_image_is_opaque_where_it_is_strong_and_clear_where_it_is_zero() -> None:
    heat = torch.tensor([[[0.0, -2.0]]])
    figure = plots.heat_over_image(torch.zeros(1, 1, 1, 2), heat)
    below, above = figure.axes[0].get_images()
    assert below.get_cmap().name == "gray"
    np.testing.assert_allclose(np.asarray(above.get_alpha()), [[0.0, 1.0]])
    np.testing.assert_array_equal(np.asarray(above.get_array()), heat[0].numpy())


def test_a_matrix_names_its_rows_and_columns_and_is_white_at_zero() -> None:
    drawn = plots.matrix(torch.tensor([[0.0, -2.0, 1.0], [0.5, 0.0, 0.0]]), rows=["a", "b"], columns=["x", "y", "z"])
    ax = drawn.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y", "z"]
    assert ax.images[0].get_clim() == (-2.0, 2.0)
    with pytest.raises(InputError, match="a name per row and column"):
        plots.matrix(torch.zeros(2, 2), rows=["a"], columns=["x", "y"])


def test_a_curve_goes_through_the_values_and_its_band_spans_the_intervals() -> None:
    estimates = [Estimate(0.5, 0.4, 0.7, 9), Estimate(0.3, 0.1, 0.35, 9)]
    drawn = plots.curve([1.0, 2.0], {"only": estimates})
    ax = drawn.axes[0]
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[1, 0.5], [2, 0.3]])
    corners = {tuple(corner) for corner in ax.collections[0].get_paths()[0].vertices.tolist()}  # type: ignore[union-attr]
    assert {(1.0, 0.4), (1.0, 0.7), (2.0, 0.1), (2.0, 0.35)} <= corners
    assert drawn.legends == []


def test_several_curves_have_a_legend_and_different_colours() -> None:
    drawn = pictures()["curve"]
    ax = drawn.axes[0]
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["PGD", "noise"]
    assert len({line.get_color() for line in ax.lines}) == 2


def test_bars_are_as_long_as_the_values_and_whiskers_as_the_intervals() -> None:
    estimates = {"clean": Estimate(0.9, 0.8, 0.95, 50), "attacked": Estimate(0.1, 0.0, 0.2, 50)}
    ax = plots.bars(estimates).axes[0]
    assert [bar.get_width() for bar in ax.patches] == [0.9, 0.1]  # type: ignore[attr-defined]
    assert [list(line.get_xdata()) for line in ax.lines] == [[0.8, 0.95], [0.0, 0.2]]  # type: ignore[arg-type]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["clean", "attacked"]
    assert ax.yaxis_inverted(), "the first is at the top"
    pair = [bar.get_facecolor() for bar in plots.bars(estimates, colours=plots.PAIR).axes[0].patches]
    assert [matplotlib.colors.to_hex(colour).upper() for colour in pair] == list(plots.PAIR)
    assert [text.get_text() for text in ax.texts] == ["0.9", "0.1"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.image_grid(noise(2, 2, 4, 4)), r"\(n, 1 or 3, h, w\)"),
        (lambda: plots.image_grid(torch.full((1, 1, 2, 2), float("nan"))), "finite"),
        (lambda: plots.image_grid(noise(0, 1, 4, 4)), "n > 0"),
        (lambda: plots.image_grid(noise(2, 1, 4, 4), ["one"]), "one title per picture"),
        (lambda: plots.image_grid(noise(2, 1, 4, 4), columns=0), "'columns'"),
        (lambda: plots.signed_heat(noise(4, 4)), "'heat' parameter of signed_heat"),
        (lambda: plots.signed_heat(torch.full((1, 2, 2), float("inf"))), "finite"),
        (lambda: plots.heat_over_image(noise(2, 1, 4, 4), noise(2, 4, 5)), "must agree"),
        (lambda: plots.curve([1.0], {}), "'series'"),
        (lambda: plots.curve([1.0, 2.0], {"a": [Estimate.rate(1, 2)]}), "one estimate per x"),
        (lambda: plots.bars({}), "'estimates'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw()


def test_cells_of_a_sheet_are_painted_one_by_one() -> None:
    drawn = plots.figure()
    cells = drawn.add_gridspec(1, 3)
    plots.paint_image(drawn.add_subplot(cells[0]), 255 * noise(3, 4, 4), bounds=(0, 255))
    plots.paint_heat(drawn.add_subplot(cells[1]), noise(1, 4, 4), torch.full((4, 4), -3.0), limit=2.0)
    named = plots.axes(drawn, "third", at=cells[2])
    assert [len(ax.get_images()) for ax in drawn.axes] == [1, 2, 0]
    assert named.get_title(loc="left") == "third"
    heat = drawn.axes[1].get_images()[1]
    assert heat.get_clim() == (-2.0, 2.0)
    assert np.asarray(heat.get_alpha()).max() == 1, "what is beyond the limit is no more than opaque"
    with pytest.raises(InputError, match="must agree"):
        plots.paint_heat(drawn.axes[1], noise(1, 4, 4), noise(4, 5), limit=1.0)
