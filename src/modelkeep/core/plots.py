"""The one place for the look of pictures, and the few pictures that several results share.

Figures are plain matplotlib objects without pyplot, so drawing keeps no global state and needs no display.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.svg import is_chart, svg_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.gridspec import SubplotSpec

    from modelkeep.core.results import Estimate

# Okabe and Ito's colours, which people with any colour vision can tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
PAIR = ("#9CCBE6", "#0072B2")
"""A light and a dark shade of one hue, for two that belong together: before and after, labels and predictions."""
INK, MUTED, FAINT = "#222222", "#666666", "#E6E6E6"
_LEGEND = 44  # letters that fit side by side
DIVERGING = "RdBu_r"  # blue below 0, white at 0, red above: also safe


def figure(width: float = 6.4, height: float = 3.8) -> Figure:
    """An empty figure of `width` × `height` inches, laid out so that nothing overlaps."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08), facecolor="white")


def axes(
    figure: Figure | SubFigure,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    grid: Literal["x", "y"] = "y",
    at: SubplotSpec | None = None,
) -> Axes:
    """A pair of axes in our style, with lines across the `grid` axis: the figure's one, or the one `at` a place."""
    ax = figure.add_subplot() if at is None else figure.add_subplot(at)
    style(ax, title, x_label, y_label, grid)
    return ax


def style(ax: Axes, title: str = "", x_label: str = "", y_label: str = "", grid: Literal["x", "y"] = "y") -> None:
    """Give axes our style."""
    ax.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")
    ax.set_xlabel(x_label, color=MUTED, fontsize=9)
    ax.set_ylabel(y_label, color=MUTED, fontsize=9)
    ax.tick_params(colors=MUTED, labelsize=9, length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(MUTED)
    ax.grid(axis=grid, color=FAINT)
    ax.set_axisbelow(True)


def image_grid(
    images: torch.Tensor, titles: Sequence[str] = (), columns: int = 8, bounds: tuple[float, float] = (0.0, 1.0)
) -> Figure:
    """Pictures side by side. `images: (n, c, h, w)`, grey or RGB, with values in `bounds`."""
    pictures = _pixels(images, bounds)
    return _grid(pictures, titles, columns, lambda ax, i: ax.imshow(pictures[i], cmap="gray", vmin=0, vmax=1))


def signed_heat(heat: torch.Tensor, titles: Sequence[str] = (), columns: int = 8) -> Figure:
    """Maps of signed numbers, such as influences. `heat: (n, h, w)`; 0 is white, and all share one scale."""
    values, limit = _signed("signed_heat", heat)

    def paint(ax: Axes, i: int) -> None:
        ax.imshow(values[i], cmap=DIVERGING, vmin=-limit, vmax=limit)

    return _grid(values, titles, columns, paint, limit)


def heat_over_image(
    images: torch.Tensor,
    heat: torch.Tensor,
    titles: Sequence[str] = (),
    columns: int = 8,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Figure:
    """Signed maps over faded grey pictures, the more opaque the stronger.

    `images: (n, c, h, w)` with values in `bounds`, `heat: (n, h, w)`.
    """
    values, limit = _signed("heat_over_image", heat)
    if images.ndim != 4 or len(images) != len(heat):
        raise InputError(f"Images and heat must agree. Got {tuple(images.shape)} and {tuple(heat.shape)}.")
    return _grid(values, titles, columns, lambda ax, i: paint_heat(ax, images[i], heat[i], limit, bounds), limit)


def paint_image(ax: Axes, image: torch.Tensor, bounds: tuple[float, float] = (0.0, 1.0)) -> None:
    """One picture, `image: (c, h, w)`, grey or RGB with values in `bounds`, in a cell without axes."""
    ax.set_axis_off()
    ax.imshow(_pixels(image[None], bounds)[0], cmap="gray", vmin=0, vmax=1)


def paint_heat(
    ax: Axes, image: torch.Tensor, heat: torch.Tensor, limit: float, bounds: tuple[float, float] = (0.0, 1.0)
) -> None:
    """One signed map, `heat: (h, w)` from -`limit` to `limit`, over a faded grey picture, the more opaque the stronger.

    `image: (c, h, w)` has values in `bounds`.
    """
    values, picture = _signed("paint_heat", heat[None])[0][0], _pixels(image[None], bounds)[0]
    if picture.shape[:2] != values.shape:
        raise InputError(f"Images and heat must agree. Got {tuple(image.shape)} and {tuple(heat.shape)}.")
    grey = picture.mean(axis=2) if picture.ndim == 3 else picture
    ax.set_axis_off()
    # Pale, so that the colours stand out; the square root lets weak influences be seen too.
    ax.imshow(0.6 + 0.4 * grey, cmap="gray", vmin=0, vmax=1)
    opacity = (abs(values) / limit).clip(0, 1) ** 0.5
    ax.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, alpha=opacity)


def in_cells(heat: torch.Tensor, most: int = 28) -> torch.Tensor:
    """`heat: (n, h, w)` summed in cells, at most `most` along a side, so that the eye sees regions and not specks."""
    from torch.nn import functional

    size = -(-max(heat.shape[1:]) // most)
    if size == 1:
        return heat
    cells = functional.avg_pool2d(heat[:, None], size, ceil_mode=True, divisor_override=1)
    return functional.interpolate(cells, scale_factor=size, mode="nearest")[:, 0, : heat.shape[1], : heat.shape[2]]


def curve(
    x: Sequence[float],
    series: Mapping[str, Sequence[Estimate]],
    *,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
) -> Figure:
    """Lines through estimates, each in the band of its intervals; `series` maps a name to one estimate per `x`."""
    if not series:
        raise bad_parameter("curve", "series", "at least one named list of estimates", series)
    drawn = figure()
    ax = axes(drawn, title, x_label, y_label)
    for i, (name, estimates) in enumerate(series.items()):
        if len(estimates) != len(x):
            raise InputError(f"The curve '{name}' needs one estimate per x. Got {len(estimates)} for {len(x)}.")
        colour = PALETTE[i % len(PALETTE)]
        ax.fill_between(x, [e.low for e in estimates], [e.high for e in estimates], color=colour, alpha=0.18, lw=0)
        ax.plot(x, [e.value for e in estimates], color=colour, lw=2, marker="o", ms=4, label=name)
    if len(series) > 1:
        legend(drawn, ax)
    return drawn


def legend(drawn: Figure | SubFigure, ax: Axes) -> None:
    """The names of what `ax` shows, below it, where they hide nothing and are not cut."""
    handles, names = ax.get_legend_handles_labels()
    columns = max(1, min(len(names), _LEGEND // max(map(len, names))))
    look = {"frameon": False, "fontsize": 9, "labelcolor": INK}
    drawn.legend(handles, names, loc="outside lower left", ncols=columns, **look)


def bars(
    estimates: Mapping[str, Estimate], *, title: str = "", x_label: str = "", colours: Sequence[str] = PALETTE[:1]
) -> Figure:
    """A bar per named estimate, the first at the top, with its interval as a whisker and its value beside it.

    The bars take the `colours` in turn: a `PAIR` where each two of them belong together.
    """
    if not estimates:
        raise bad_parameter("bars", "estimates", "at least one named estimate", estimates)
    drawn = figure(height=1.0 + 0.38 * len(estimates))
    ax = axes(drawn, title, x_label, grid="x")
    for row, estimate in enumerate(estimates.values()):
        ax.barh(row, estimate.value, height=0.62, color=colours[row % len(colours)])
        ax.plot([estimate.low, estimate.high], [row, row], color=INK, lw=1.4, marker="|", ms=7, solid_capstyle="butt")
        end = max(estimate.high, estimate.value, 0.0)
        label = f"{estimate.value:.3g}"
        ax.annotate(label, (end, row), (6, 0), textcoords="offset points", va="center", color=INK, fontsize=9)
    ax.set_yticks(range(len(estimates)), list(estimates), color=INK)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    return drawn


def matrix(values: torch.Tensor, rows: Sequence[str], columns: Sequence[str], *, x_label: str = "") -> Figure:
    """A table of signed numbers as colours, 0 white. `values: (rows, columns)`."""
    if values.shape != (len(rows), len(columns)):
        raise InputError(
            f"A matrix needs a name per row and column. Got {tuple(values.shape)}, {len(rows)}, {len(columns)}."
        )
    numbers, limit = _signed("matrix", values[None])
    drawn = figure(max(6.4, 0.24 * len(columns) + 1.5), 1.2 + 0.28 * len(rows))
    ax = axes(drawn, x_label=x_label)
    ax.grid(visible=False)
    painted = ax.imshow(numbers[0], cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
    ax.set_yticks(range(len(rows)), list(rows), color=INK)
    ax.set_xticks(range(len(columns)), list(columns), rotation=90 if len(columns) > 12 else 0, fontsize=7)
    _colour_bar(drawn, painted, [ax])
    return drawn


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG file: the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    figure.set_layout_engine("none")  # the layout is made once: made again, it would move things by a pixel
    return buffer.getvalue()


def data_uri(figure: Figure) -> str:
    """The figure as the `src` of an image in an HTML page that needs no other file: a chart is SVG, all else is PNG."""
    if is_chart(figure):
        return "data:image/svg+xml;base64," + base64.b64encode(svg_text(figure).encode()).decode("ascii")
    return "data:image/png;base64," + base64.b64encode(png_bytes(figure)).decode("ascii")


def _grid(
    pictures: Any,
    titles: Sequence[str],
    columns: int,
    paint: Callable[[Axes, int], object],
    limit: float | None = None,
) -> Figure:
    """A cell without axes per picture, painted by `paint(ax, i)`; a colour bar where they share a `limit`."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    n, height, width = pictures.shape[:3]
    if columns < 1:
        raise bad_parameter("a picture grid", "columns", "at least 1", columns)
    if titles and len(titles) != n:
        raise InputError(f"A picture grid needs one title per picture, or none. Got {len(titles)} for {n}.")
    columns = min(columns, n)
    rows = math.ceil(n / columns)
    side = min(max(8.0 / columns, 1.25), 2.4)
    drawn = figure(side * columns, (side * height / width + (0.25 if titles else 0.0)) * rows)
    cells = list(drawn.subplots(rows, columns, squeeze=False).flat)
    for i, ax in enumerate(cells):
        ax.set_axis_off()
        if i < n:
            paint(ax, i)
            if titles:
                ax.set_title(titles[i], color=INK, fontsize=8)
    if limit is not None:
        _colour_bar(drawn, ScalarMappable(Normalize(-limit, limit), DIVERGING), cells)
    return drawn


def _colour_bar(drawn: Figure, painted: Any, cells: Sequence[Axes]) -> None:
    bar = drawn.colorbar(painted, ax=list(cells), fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelsize=8, length=0)


def _pixels(images: torch.Tensor, bounds: tuple[float, float]) -> Any:
    """`images` as an array of values 0 to 1: (n, h, w) where they are grey, (n, h, w, 3) where they are RGB."""
    if images.ndim != 4 or len(images) == 0 or images.shape[1] not in (1, 3) or not torch.isfinite(images).all():
        raise InputError(f"Pictures must be finite, of shape (n, 1 or 3, h, w), n > 0. Got {tuple(images.shape)}.")
    low, high = bounds
    scaled = ((images.detach().cpu().float() - low) / (high - low)).clamp(0, 1)
    return (scaled[:, 0] if images.shape[1] == 1 else scaled.permute(0, 2, 3, 1)).numpy()


def _signed(function: str, heat: torch.Tensor) -> tuple[Any, float]:
    """`heat` as an array, and its largest magnitude (1 where all of it is 0)."""
    if heat.ndim != 3 or heat.numel() == 0 or not torch.isfinite(heat).all():
        raise bad_parameter(function, "heat", "finite, of shape (n, h, w), n > 0", tuple(heat.shape))
    values = heat.detach().cpu().float().numpy()
    return values, float(abs(values).max()) or 1.0
