"""Visualise: an input optimised for a quantity, such as a unit's ideal input (Leino2022, section 3.3 and appendix D.1).

The parametrisation and the transformations are those of Olah2017, which the appendix refers to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelError, bad_parameter
from modelkeep.core.examples import Stored, in_parts
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.explain.meaning.search_space import SearchSpace, Transformations, search_space
from modelkeep.explain.orientation import oriented_slice
from modelkeep.explain.quantities import PredictedScore, Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Read = Callable[[torch.Tensor], torch.Tensor]
"""The quantity `(n,)` of inputs `(n, *input_shape)`."""

NOISE = 32  # inputs of noise that tell what the quantity is where there is nothing to see


@dataclass(frozen=True, kw_only=True, eq=False)
class Visualised(Result, kind="visualised"):
    """An input `(*input_shape)` that was optimised for a quantity, and what the quantity is there.

    `curve: (steps,)` is the quantity at each step, under the transformations. For scale: the quantity `on_noise`, and
    where data were given `on_data` (their mean) and that of the best example. `flat`: no start was found from which
    the quantity changes at all, as for a unit that is never active; the input is then only the start. The search
    begins at faint noise, and only where that leads to less than the best example, at strong noise or there.
    """

    quantity: str
    parametrisation: str
    start: str
    flat: bool
    features: tuple[str, ...] | None = field(repr=False)
    bounds: tuple[float, float] | None
    value: float
    on_noise: Estimate
    on_data: Estimate | None
    best_value: float | None
    best_example: int | None
    input: Tensor = field(repr=False)
    deviation: Tensor = field(repr=False)
    curve: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("optimised for", self.quantity),
            (
                "there",
                "it does not change anywhere near a start" if self.flat else f"{self.value:.3g}, from {self.start}",
            ),
            ("on noise", str(self.on_noise)),
        ]
        if self.on_data is not None:
            rows += [
                ("on the data", str(self.on_data)),
                ("best example", f"{self.best_value:.3g} (example {self.best_example})"),
            ]
        if self.input.ndim == 1:
            rows.append(("moved most", ", ".join(f"{name} {by:+.2f}" for name, by in self.furthest_features(3))))
        return rows

    def furthest_features(self, count: int) -> list[tuple[str, float]]:
        """The features of a table that are furthest from their mean (or the middle), in standard deviations."""
        names = self.features if self.features is not None else [f"feature {i}" for i in range(self.input.numel())]
        order = self.deviation.abs().flatten().argsort(descending=True, stable=True)[:count]
        return [(names[i], float(self.deviation.flatten()[i])) for i in order.tolist()]

    def draw(self) -> Figure:
        """The input, and the quantity's curve beside it."""
        from modelkeep.core import plots

        drawn = plots.figure(7.6, 3.2)
        cells = drawn.add_gridspec(1, 2, width_ratios=[1, 1.5])
        if self.input.ndim == 3 and self.input.shape[0] in (1, 3):
            bounds = self.bounds if self.bounds is not None else (float(self.input.min()), float(self.input.max()))
            plots.paint_image(drawn.add_subplot(cells[0]), self.input, bounds)
        else:
            moved = self.furthest_features(8)
            ax = plots.axes(drawn, x_label="standard deviations from the mean", grid="x", at=cells[0])
            ax.barh(range(len(moved)), [by for _, by in moved], color=plots.PALETTE[0], alpha=0.85)
            ax.set_yticks(range(len(moved)), [name for name, _ in moved])
            ax.invert_yaxis()
        ax = plots.axes(drawn, self.quantity, "step", at=cells[1])
        ax.plot(self.curve.numpy(), color=plots.PALETTE[0], lw=1.5)
        levels = {"noise": self.on_noise.value, "best example": self.best_value, "result": self.value}
        for name, level in levels.items():
            if level is not None:
                ax.axhline(level, color=plots.MUTED, lw=0.8, ls=":")
                ax.annotate(name, (0, level), (2, 2), textcoords="offset points", color=plots.MUTED, fontsize=8)
        return drawn


@declare("measurement", "visualisation", access="weights", paper="Olah2017; Leino2022, appendix D.1")
class Visualise:
    """An input for which a quantity is as large as can be found: what a unit, a channel or a class looks for.

    Only the part of the network up to the quantity's place is run. Inputs stay within the model's bounds; where it
    has none, within the distance from the mean of the data that examples typically have, each feature counted in
    its standard deviations.

    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = layer.load_state_dict({"weight": torch.tensor([[1.0, -1.0], [0.0, 0.0]]), "bias": torch.zeros(2)})
    >>> model = Model(layer, input_shape=(2,), classes=("cat", "dog"))
    >>> from modelkeep.explain import ClassScore
    >>> Visualise(quantity=ClassScore("cat"))(model).input.round()
    tensor([1., 0.])
    """

    quantity: Quantity = setting("What to make large: a unit, a channel, the score of a class.")
    # "fourier" optimises the spectrum, scaled by 1/frequency and with colours decorrelated: the images are smooth.
    parametrisation: Literal["fourier", "pixels"] | None = setting(
        "What is optimised; else the spectrum of an image, and the values of everything else.",
        default=None,
        choices=("fourier", "pixels"),
    )
    transformations: Transformations = setting(
        "How an image is changed at random in each step.", default=Transformations()
    )
    steps: int = setting("Steps of Adam.", default=256, at_least=1)
    learning_rate: float = setting("Of Adam.", default=0.05, above=0, below=math.inf)
    batch_size: int = setting("Examples that are run at once.", default=64, at_least=1)

    def __call__(self, model: Model, data: Data | None = None, *, seed: int = 0) -> Visualised:
        """Search for the input. The data give the scale; they are needed where the model has no bounds."""
        image = len(model.input_shape) == 3
        parametrisation = self.parametrisation or ("fourier" if image else "pixels")
        if parametrisation == "fourier" and not image:
            allowed = "'fourier' or 'pixels' for images (channels, height, width), and 'pixels' for other inputs"
            raise bad_parameter("Visualise", "parametrisation", allowed, parametrisation)
        if isinstance(self.quantity, PredictedScore):
            raise InputError("An input that is yet to be found has no predicted class. Name one: ClassScore('…').")
        if data is not None:
            model.require_fit(data)
            model.check_inputs(data.x[:1] if isinstance(data.x, Stored) else data.x)
        space = search_space(model, data, fourier=parametrisation == "fourier")
        fingerprint = data.fingerprint() if data is not None else None
        generator = torch.Generator().manual_seed(seed)
        with measured(seed, model.fingerprint(), fingerprint) as provenance, model.frozen(seed):
            read = reader(model, self.quantity)
            noise = space.noise(NOISE, generator)
            model.logits(noise[:1])  # a damaged model is refused, also where the damage is above the quantity's place
            on_noise, on_data = read(noise), None
            if data is not None:
                with torch.no_grad():
                    on_data = torch.cat([read(part.to(model.device)) for part in in_parts(data.x, self.batch_size)])
            best = int(on_data.argmax()) if on_data is not None else None
            best_value = float(on_data.max()) if on_data is not None else None
            starts = [("noise", space.start(generator, amplitude)) for amplitude in (0.01, 0.1, 1.0)]
            starts.append(("white noise", space.encode(noise[int(on_noise.argmax())][None])))
            if data is not None and best is not None:
                starts.append(("best example", space.encode(data.x[best][None].to(model.device))))
            tops: list[_Top] = []
            for name, start in starts:
                # The faintest noise from which the quantity changes will do. Where it leads nowhere, as it can with a
                # rectified unit, which is constant around most inputs, stronger noise may, or the best example.
                if any(top.start == name for top in tops) or not _changes(space, read, start):
                    continue
                with progress.task(f"Input for {self.quantity}", self.steps) as task:
                    change = self.transformations if image else None
                    tops.append(
                        _climb(space, read, name, start, change, generator, self.steps, self.learning_rate, task)
                    )
                if best_value is None or tops[-1].value > best_value:
                    break
            top = max(tops, key=lambda top: top.value) if tops else _stay(space, read, starts[0][1], self.steps)
            return Visualised(
                provenance=provenance(),
                quantity=str(self.quantity),
                parametrisation=parametrisation,
                start=top.start,
                flat=not tops,
                features=data.features if data is not None else None,
                bounds=model.bounds,
                value=top.value,
                on_noise=_mean(on_noise, seed),
                on_data=_mean(on_data, seed) if on_data is not None else None,
                best_value=best_value,
                best_example=best,
                input=top.x[0].cpu(),
                deviation=space.deviation(top.x)[0].cpu(),
                curve=top.curve,
            )


def reader(model: Model, quantity: Quantity) -> Read:
    """The quantity as a function of inputs; runs the network no further than the quantity's place."""
    cutting, score = oriented_slice(model, "input", until=quantity.place), quantity.score(model)

    def read(x: torch.Tensor) -> torch.Tensor:
        output = cutting.g(cutting.h(x))
        predicted = output.argmax(dim=1) if quantity.place is None else output.new_zeros(len(x), dtype=torch.int64)
        values = score(output, predicted)
        if values.shape != (len(x),):
            raise InputError(f"A quantity gives one number per example, ({len(x)},). Got {tuple(values.shape)}.")
        return values

    return read


@dataclass(frozen=True, eq=False)
class _Top:
    """What a search came to: the input `x: (1, *input_shape)`, the quantity there, and on the way."""

    start: str
    x: torch.Tensor
    value: float
    curve: torch.Tensor


def _climb(
    space: SearchSpace,
    read: Read,
    name: str,
    start: torch.Tensor,
    change: Transformations | None,
    generator: torch.Generator,
    steps: int,
    learning_rate: float,
    task: progress.Task,
) -> _Top:
    """Adam's ascent from `start`."""
    parameter = start.detach().clone().requires_grad_()
    optimizer = torch.optim.Adam([parameter], lr=learning_rate)
    curve = torch.empty(steps, dtype=torch.float64)
    for step in range(steps):
        with torch.enable_grad():
            x = space.decode(parameter)
            value = read(change(x, generator) if change is not None else x).sum()
            (parameter.grad,) = torch.autograd.grad(-value, parameter)
        optimizer.step()
        curve[step] = value.detach()
        task.advance(note=f"{float(curve[step]):.3g}")
    with torch.no_grad():
        x = space.decode(parameter)
        return _Top(name, x, float(read(x)), curve)


def _stay(space: SearchSpace, read: Read, start: torch.Tensor, steps: int) -> _Top:
    """Where nothing changes the quantity: the start itself."""
    with torch.no_grad():
        x = space.decode(start)
        value = float(read(x))
    return _Top("noise", x, value, torch.full((steps,), value, dtype=torch.float64))


def _changes(space: SearchSpace, read: Read, start: torch.Tensor) -> bool:
    """Whether the quantity has a slope at the start."""
    with torch.enable_grad():
        parameter = start.detach().clone().requires_grad_()
        value = read(space.decode(parameter)).sum()
        if not value.requires_grad:
            raise InputError("The quantity does not depend on the input through differentiable operations.")
        (gradient,) = torch.autograd.grad(value, parameter)
    if not torch.isfinite(gradient).all():
        raise ModelError("The gradient of the quantity is NaN or infinite. Is the quantity differentiable there?")
    return bool((gradient != 0).any())


def _mean(values: torch.Tensor, seed: int) -> Estimate:
    return Estimate.bootstrap(values.detach().cpu().double().numpy(), seed)
