"""Model inversion: inputs that a model takes for a class, found by descent, and what they show of its training data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from modelkeep.core import plots, progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import per_example
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.core.similarity import nearest
from modelkeep.explain.meaning.search_space import Transformations, search_space

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FAINT = 0.05
"""The standard deviation of a start's noise, as a share of the range: far below what a class looks like."""
_RATE = 0.05
"""Adam's learning rate in the Fourier space, as in `Visualise`, whose scale it shares."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Inverted(Result, kind="inverted"):
    """Reconstructions `x: (n, *input_shape)` of the classes `labels: (n,)`.

    `confidence: (n,)` is the model's probability for that class there. Where data were given, `example: (n,)` is the
    most similar example of them and `similarity: (n,)` its SSIM.
    """

    classes: tuple[str, ...]
    bounds: tuple[float, float]
    believed: Estimate
    labels: Tensor = field(repr=False)
    x: Tensor = field(repr=False)
    confidence: Tensor = field(repr=False)
    example: Tensor | None = field(default=None, repr=False)
    similarity: Tensor | None = field(default=None, repr=False)

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("reconstructions", f"{len(self.labels)} of {len(set(self.labels.tolist()))} classes"),
            ("taken for their class", str(self.believed)),
        ]
        if self.similarity is not None and self.example is not None:
            best = int(self.similarity.argmax())
            rows.append(
                (
                    "most like an example",
                    f"SSIM {float(self.similarity[best]):.3f}: {self.classes[int(self.labels[best])]}, "
                    f"example {int(self.example[best])}",
                )
            )
        return rows

    def draw(self) -> Figure:
        """The reconstructions, with the class and the model's confidence."""
        shown = min(len(self.labels), 32)
        if self.x.ndim != 4 or self.x.shape[1] not in (1, 3):
            raise InputError("Only pictures (1 or 3, height, width) are drawn. The reconstructions are in `x`.")
        titles = [
            f"{self.classes[label]} {float(sure):.0%}"
            for label, sure in zip(self.labels[:shown].tolist(), self.confidence[:shown], strict=True)
        ]
        return plots.image_grid(self.x[:shown], titles, bounds=self.bounds)


@declare("measurement", "model-inversion", access="weights", paper="Leino2022, eq. 8.1 and appendix D.1")
class InvertModel:
    """Inputs that a model takes for each class, found by gradient descent from nothing: what it shows of its data.

    The attacker needs the weights and no data. A descent from one fixed start gives one picture per class, so each
    reconstruction begins at noise of its own. The techniques of appendix D.1 (a Fourier parametrisation, random
    transformations, noise on the weights) make clearer pictures of networks that are not robust.

    >>> layer = torch.nn.Linear(2, 2, bias=False)
    >>> _ = layer.load_state_dict({"weight": torch.tensor([[1.0, -1.0], [-1.0, 1.0]])})
    >>> model = Model(layer, input_shape=(2,), classes=("left", "right"))
    >>> InvertModel(steps=200)(model).x.round()
    tensor([[1., 0.],
            [0., 1.]])
    """

    per_class: int = setting("Reconstructions of each class.", default=1, at_least=1)
    steps: int = setting("Steps of descent.", default=128, at_least=1)
    step_size: float | None = setting(
        "Length of a step; without it, all steps together reach as far as two corners of the range are apart.",
        default=None,
        above=0,
    )
    start: Literal["noise", "grey", "blank"] = setting(
        "Faint noise on grey, grey alone, or the smallest value everywhere.", default="noise"
    )
    parametrisation: Literal["pixels", "fourier"] = setting("What is optimised.", default="pixels")
    transformations: Transformations | None = setting("How a picture is changed at random in each step.", default=None)
    weight_noise: float = setting(
        "Noise on the weights in each step, as a share of their deviation.", default=0.0, at_least=0
    )

    def __call__(self, model: Model, data: Data | None = None, *, seed: int = 0) -> Inverted:
        """Reconstruct all classes. With data, say which example each reconstruction is most like."""
        if model.bounds is None:
            raise InputError("Inversion searches within the range of an input. Give the model bounds=(low, high).")
        if data is not None:
            model.require_fit(data)
        picture = len(model.input_shape) == 3
        if not picture and (self.parametrisation == "fourier" or self.transformations is not None):
            raise InputError("Fourier parametrisation and transformations are for pictures (channels, height, width).")
        labels = torch.arange(len(model.classes), device=model.device).repeat_interleave(self.per_class)
        generator = torch.Generator().manual_seed(seed)
        of_data = data.fingerprint() if data is not None else None
        with measured(seed, model.fingerprint(), of_data) as provenance, model.frozen(seed):
            descend = self._in_spectrum if self.parametrisation == "fourier" else self._in_pixels
            x = descend(model, labels, generator)
            sure = model.probs(x).gather(1, labels[:, None])[:, 0]
            right = int((model.predict(x) == labels).sum())
            low, high = model.bounds
            example = likeness = None
            if data is not None and picture:
                example, likeness = nearest(x.cpu(), data.x, high - low)
            return Inverted(
                provenance=provenance(),
                classes=model.classes,
                bounds=model.bounds,
                believed=Estimate.rate(right, len(labels)),
                labels=labels.cpu(),
                x=x.cpu(),
                confidence=sure.cpu(),
                example=example,
                similarity=likeness,
            )

    def _in_pixels(self, model: Model, labels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Steps of fixed length against the gradient, clipped into the range (eq. 8.1)."""
        assert model.bounds is not None
        low, high = model.bounds
        x = torch.full((len(labels), *model.input_shape), low if self.start == "blank" else (low + high) / 2)
        if self.start == "noise":
            x += _FAINT * (high - low) * torch.randn(x.shape, generator=generator)
        x = x.clamp(low, high).to(model.device, model.dtype)
        size = self.step_size or (high - low) * math.sqrt(x[0].numel()) / self.steps
        with progress.task("Model inversion", self.steps) as task:
            for _ in range(self.steps):
                with torch.enable_grad():
                    free = x.detach().requires_grad_()
                    (slope,) = torch.autograd.grad(self._loss(model, free, labels, generator), free)
                lengths = slope.flatten(1).norm(dim=1).clamp_min(torch.finfo(slope.dtype).tiny)
                x = (x - size * slope / per_example(lengths, slope)).clamp(low, high)
                task.advance()
        return x

    def _in_spectrum(self, model: Model, labels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Adam on the spectra of the pictures, whose entries are scaled by 1/frequency (Olah2017)."""
        space = search_space(model, None, fourier=True)
        starts = [space.start(generator, 0.01 if self.start == "noise" else 0.0) for _ in labels]
        free = torch.cat(starts).requires_grad_()
        optimizer = torch.optim.Adam([free], lr=_RATE)
        with progress.task("Model inversion", self.steps) as task:
            for _ in range(self.steps):
                with torch.enable_grad():
                    loss = self._loss(model, space.decode(free), labels, generator)
                    (free.grad,) = torch.autograd.grad(loss, free)
                optimizer.step()
                task.advance()
        with torch.no_grad():
            return space.decode(free)

    def _loss(self, model: Model, x: torch.Tensor, labels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """The summed cross-entropy of the wanted classes, under this step's transformation and weights."""
        if self.transformations is not None:
            x = torch.cat([self.transformations(one[None], generator) for one in x])
        if self.weight_noise == 0:
            return cross_entropy(model.forward(x), labels, reduction="sum")
        noisy = {
            name: weight + self.weight_noise * weight.std(correction=0) * _like(weight, generator)
            for name, weight in model.module.named_parameters()
        }
        return cross_entropy(functional_call(model.module, noisy, (model.preprocess(x),)), labels, reduction="sum")


def _like(weight: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    # Drawn on the CPU, so that every device sees the same numbers.
    return torch.randn(weight.shape, generator=generator, dtype=weight.dtype).to(weight.device)
