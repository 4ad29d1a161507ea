"""Randomized smoothing: a statistical certificate for any network, at the price of thousands of passes per input.

Not the network `f` is certified but the smoothed classifier `g(x)`, the class that `f` gives most often for
`x + N(0, σ² I)`. If `f` gives class A with probability at least `p > 1/2`, then `g` answers A everywhere within the l2
radius `σ Φ⁻¹(p)` (Cohen2019, theorem 1 with the runner-up bounded by `1 - p`). `p` is estimated,
so each certificate is wrong with probability at most `alpha`: a GloRo certificate never is, and costs one pass.

The noise leaves the bounds of the inputs and is not clipped: the theorem speaks of all of space. It also speaks of
real numbers; that floats can be made to tell an input from its neighbour through the noise (Voracek2023) is
not accounted for.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from modelkeep.attack.checkpoint import Checkpoint
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import ModelError, bad_parameter
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.method import declare, setting, settings_of
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.training.batches import derive_seed
from modelkeep.training.schedules import Step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABSTAINED = -1
"""The prediction where no class was seen often enough."""
_BLOCK = 128  # how many noises are drawn at once: always as many, so that the batch size does not change them


@dataclass(frozen=True, kw_only=True, eq=False)
class Smoothed(Result, kind="smoothed"):
    """What the smoothed classifier answers, and how far around each input it provably (but for `alpha`) stays so.

    `prediction: (n,)` is -1 where it abstained, and there the `radius: (n,)` is 0.
    """

    sigma: float
    samples: int
    alpha: float
    classes: tuple[str, ...]
    clean: Estimate
    passes: int
    labels: Tensor = field(repr=False)
    prediction: Tensor = field(repr=False)
    radius: Tensor = field(repr=False)

    def certified_accuracy(self, radius: float = 0.0) -> Estimate:
        """The share of inputs answered rightly and certified for all changes up to `radius` in l2."""
        right = (self.prediction == self.labels) & (self.radius > radius)
        return Estimate.rate(int(right.sum()), len(right))

    @property
    def abstained(self) -> Estimate:
        """The share of inputs without an answer."""
        return Estimate.rate(int((self.prediction == ABSTAINED).sum()), len(self.prediction))

    @property
    def largest(self) -> float:
        """The radius of an input whose answer no noise ever changed: more needs more samples or a larger sigma."""
        return self.sigma * _quantile(_lower(self.samples, self.samples, self.alpha))

    @property
    def cost(self) -> float:
        """How many plain predictions one certified prediction cost."""
        return self.passes / len(self.labels)

    def rows(self) -> list[tuple[str, str]]:
        n = len(self.labels)
        halves = [self.largest * share for share in (0.25, 0.5, 0.75)]
        return [
            ("smoothing", f"sigma {self.sigma:g}, {self.samples:,} samples, radii up to {self.largest:.3g} in l2"),
            ("accuracy of the network", str(self.clean)),
            ("accuracy, smoothed", str(self.certified_accuracy())),
            *((f"certified accuracy at {radius:.3g}", str(self.certified_accuracy(radius))) for radius in halves),
            ("abstained", str(self.abstained)),
            ("median radius", f"{float(self.radius.median()):.3g}"),
            ("a certificate is wrong", f"with probability at most {self.alpha:g}, each"),
            ("cost", f"{self.cost:,.0f} plain predictions, {self.provenance.seconds / n:.3g} s, per input"),
        ]

    def draw(self) -> Figure:
        """Certified accuracy against radius, in the band of its intervals."""
        from modelkeep.core import plots

        radii = [self.largest * step / 50 for step in range(51)]
        return plots.curve(
            radii,
            {"smoothed": [self.certified_accuracy(radius) for radius in radii]},
            x_label="radius, l2",
            y_label="certified accuracy",
        )


@declare("certify", "smoothing", access="scores", paper="Cohen2019, theorem 1")
class Smooth:
    """Certify the smoothed classifier on every input: its class and an l2 radius, or an abstention.

    The noise of an input depends on the seed and on the input alone, so neither the batch size nor the other inputs
    change its certificate. Best for a model trained with `NoisyTraining(sigma)`. Inside
    `modelkeep.attack.resume_from(folder)` a run that was stopped goes on where it was.

    >>> from torch import nn
    >>> model = Model(nn.Linear(2, 2, bias=False), input_shape=(2,), classes=2, bounds=None)
    >>> _ = model.module.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [-1.0, 0.0]])})
    >>> data = Data(torch.tensor([[0.5, 0.0], [0.0, 3.0]]), torch.tensor([0, 1]), model.classes)
    >>> found = Smooth(sigma=0.5)(model, data)
    >>> found.prediction.tolist(), [round(float(r), 2) for r in found.radius]  # the first is 0.5 from the boundary
    ([0, -1], [0.48, 0.0])
    """

    sigma: float = setting(
        "The noise, as a standard deviation in the inputs' units. Larger: larger radii, lower accuracy.",
        above=0,
        below=math.inf,
    )
    samples: int = setting("Noises that estimate the probability of the class.", default=10_000, at_least=1)
    selection: int = setting("Other noises, that choose the class.", default=100, at_least=1)
    alpha: float = setting(
        "The probability that a certificate is wrong, of each input.", default=0.001, above=0, below=1
    )
    radius: float = setting(
        "The radius that is wanted. An input that can no longer reach it is given up; at 0 this changes no answer.",
        default=0.0,
        at_least=0,
        below=math.inf,
    )
    batch_size: int = setting("Noisy inputs that are run at once.", default=256, at_least=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Smoothed:
        most = self.samples - self._count_needed()
        model.require_fit(data)
        x, of_model, of_data = model.check_inputs(data.x), model.fingerprint(), data.fingerprint()
        prediction = torch.full((len(x),), ABSTAINED)
        radii = torch.zeros(len(x), dtype=torch.float64)
        # A run that was stopped is found again by these, so they are what decides its numbers and nothing else.
        settings = {name: value for name, value in settings_of(self).items() if name != "batch_size"}
        checkpoint = Checkpoint(lambda: {"smooth": settings, "model": of_model, "data": of_data, "seed": seed})
        begun = passes = 0
        if (state := checkpoint.read()) is not None:
            prediction, radii = state.tensors["prediction"], state.tensors["radii"]
            begun, passes = state.values["begun"], state.values["passes"]
        with (
            measured(seed, of_model, of_data) as provenance,
            model.frozen(seed),
            torch.no_grad(),
            progress.task("smoothing", len(x)) as task,
        ):
            clean = torch.cat([model.logits(part) for part in torch.split(x, self.batch_size)]).argmax(dim=1).cpu()
            task.advance(begun)
            for i in range(begun, len(x)):
                certifying = _Point(model, x[i], self.sigma, seed, self.batch_size)
                top = int(certifying.votes(self.selection).argmax())
                missed = certifying.misses(top, self.samples, most)
                if missed <= most:
                    prediction[i] = top
                    radii[i] = self._radius(self.samples - missed)
                passes += certifying.passes
                task.advance()
                if checkpoint.due:
                    checkpoint.write({"prediction": prediction, "radii": radii}, {"begun": i + 1, "passes": passes})
        return Smoothed(
            provenance=provenance(),
            sigma=self.sigma,
            samples=self.samples,
            alpha=self.alpha,
            classes=model.classes,
            clean=Estimate.rate(int((clean == data.y).sum()), len(x)),
            passes=passes,
            labels=data.y,
            prediction=prediction,
            radius=radii,
        )

    def _radius(self, hits: int) -> float:
        """The radius where `hits` of the samples are of the class."""
        return self.sigma * _quantile(_lower(hits, self.samples, self.alpha))

    def _count_needed(self) -> int:
        """How many of the samples must be of the class for a radius above the one that is wanted."""
        needed = bisect_right(range(self.samples + 1), self.radius, key=self._radius)
        if needed > self.samples:
            raise bad_parameter(
                "Smooth",
                "samples",
                f"more, or sigma larger: with {self.samples:,} samples, alpha {self.alpha:g} and sigma {self.sigma:g} "
                f"no radius can be above {max(0.0, self._radius(self.samples)):.3g}, and {self.radius:g} is wanted",
                self.samples,
            )
        return needed


class _Point:
    """One input under noise, and how many passes that took."""

    def __init__(self, model: Model, x: torch.Tensor, sigma: float, seed: int, batch_size: int) -> None:
        self.model, self.x, self.sigma, self.seed, self.batch_size = model, x, sigma, seed, batch_size
        self.name = fingerprint({"x": x})
        self.passes = 0

    def votes(self, count: int) -> torch.Tensor:
        """How often each class is the answer."""
        answers = torch.cat(list(self._answers("selection", count)))
        return torch.bincount(answers, minlength=len(self.model.classes))

    def misses(self, top: int, count: int, most: int) -> int:
        """How often another class than `top` is the answer; counting ends where it is more than `most`."""
        missed = 0
        for answers in self._answers("estimation", count):
            missed += int((answers != top).sum())
            if missed > most:
                break
        return missed

    def _answers(self, purpose: str, count: int) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(derive_seed(self.seed, f"smoothing {purpose} {self.name}"))
        for noise in _noise(count, self.x.shape, generator, self.batch_size):
            logits = self.model.forward(torch.add(self.x, noise.to(self.x), alpha=self.sigma))
            if not torch.isfinite(logits).all():
                raise ModelError(f"The module gives NaN or infinite logits under noise of sigma {self.sigma:g}.")
            self.passes += len(noise)
            yield logits.argmax(dim=1)


def _noise(count: int, shape: torch.Size, generator: torch.Generator, batch_size: int) -> Iterator[torch.Tensor]:
    """`count` standard Gaussian noises in batches, drawn in blocks of one size whatever the batches are."""
    together = _BLOCK * max(1, batch_size // _BLOCK)
    for start in range(0, count, together):
        rows = min(together, count - start)
        blocks = [torch.randn(_BLOCK, *shape, generator=generator) for _ in range(0, rows, _BLOCK)]
        yield from torch.split(torch.cat(blocks)[:rows], batch_size)


def _lower(successes: int, n: int, alpha: float) -> float:
    """The exact (Clopper–Pearson) one-sided lower bound of a probability: it is above it in at most `alpha` of cases.

    >>> round(_lower(100, 100, 0.001), 4) == round(0.001 ** (1 / 100), 4)
    True
    """
    from scipy.special import betaincinv

    return 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, alpha))


def _quantile(probability: float) -> float:
    """Φ⁻¹."""
    from scipy.special import ndtri

    return float(ndtri(probability))


@declare("certified-training", "noise", paper="Cohen2019, section 3.3", kw_only=False)
class NoisyTraining:
    """Cross-entropy under the noise that the network will be smoothed with."""

    sigma: float = setting("The noise, as a standard deviation in the inputs' units.", above=0, below=math.inf)

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        noise = torch.randn(x.shape, generator=step.generator, device=x.device, dtype=x.dtype)
        return cross_entropy(model.forward(x + self.sigma * noise), y)
