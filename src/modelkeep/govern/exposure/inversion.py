"""Activation inversion: the party behind a cut sees z = h(x) and wants x.

Two attackers. `white_box` knows h's weights, the worst case, and searches for the x whose activations are those that
it saw (He, Zhang and Lee 2019, "Model inversion attacks against collaborative inference", with their total variation
as the prior). `decoder` cannot see h, but has seen z for inputs of the same kind that it knows, and learns to go back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from modelkeep.core import plots, progress
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.core.slices import Place
from modelkeep.govern.exposure import measures
from modelkeep.govern.exposure.cut import Exposed, in_batches, split_known
from modelkeep.govern.exposure.decoder import RECIPE, decode
from modelkeep.training import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Attacker = Literal["white_box", "decoder"]
SHOWN = 8


@dataclass(frozen=True)
class Scale:
    """Inputs in units of their own spread around their mean, as the attacker knows them from his own data.

    A picture has one spread; each column of a table has its own.
    """

    mean: torch.Tensor
    spread: torch.Tensor
    bounds: tuple[float, float] | None

    @classmethod
    def of(cls, x: torch.Tensor, bounds: tuple[float, float] | None) -> Scale:
        """The scale of known inputs `x: (m, ...)`."""
        spread = x.std(dim=0, correction=0) if x.ndim == 2 else (x - x.mean(dim=0)).square().mean().sqrt()
        return cls(x.mean(dim=0), spread.clamp_min(1e-6), bounds)

    def units(self, x: torch.Tensor) -> torch.Tensor:
        """`x` in units."""
        return (x - self.mean) / self.spread

    def inputs(self, u: torch.Tensor) -> torch.Tensor:
        """Inputs within the bounds from units."""
        x = self.mean + self.spread * u
        return x if self.bounds is None else x.clamp(*self.bounds)


@dataclass(frozen=True, kw_only=True, eq=False)
class Inversion(Result, kind="inversion"):
    """How well the inputs were reconstructed from what crosses the cut `slice`.

    `error` is the mean squared error over that of guessing the mean input (1: nothing learned, more: misled);
    for tables, of standardised columns. `ssim` is for pictures. `reidentified` is how often a reconstruction's
    nearest neighbour among `candidates` true inputs is its own.
    """

    slice: str
    attacker: Attacker
    error: Estimate
    ssim: Estimate | None
    reidentified: Estimate
    candidates: int
    truth: Tensor
    reconstructed: Tensor
    bounds: tuple[float, float] | None

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("cut after", self.slice),
            ("attacker", self.attacker.replace("_", " ")),
            ("squared error / mean input's", str(self.error)),
            ("SSIM", "only for pictures" if self.ssim is None else str(self.ssim)),
            (f"re-identified among {self.candidates}", str(self.reidentified)),
        ]

    def draw(self) -> Figure:
        """The first inputs, and below each its reconstruction."""
        pictures = torch.cat([self.truth, self.reconstructed])
        titles = ["input"] * len(self.truth) + ["reconstructed"] * len(self.reconstructed)
        low, high = self.bounds or (float(self.truth.min()), float(self.truth.max()))
        return plots.image_grid(pictures, titles, columns=len(self.truth), bounds=(low, high))


def invert(
    model: Model,
    data: Data,
    *,
    slice: str | Place,
    attacker: Attacker = "white_box",
    count: int = 64,
    known: int = 2000,
    steps: int = 300,
    prior: float = 0.3,
    recipe: Recipe = RECIPE,
    seed: int = 0,
) -> Inversion:
    """Reconstruct `count` inputs of `data` from what crosses the cut after `slice`.

    Args:
        model: The model, cut in eval mode.
        data: Its inputs. A random half at most is attacked; `known` of the others are the attacker's own: the white-box
            attacker knows only their mean and spread, the decoder has seen what crosses for each.
        slice: After which place the model is cut.
        attacker: See above.
        count: How many inputs to reconstruct; they are also the candidates for re-identification.
        known: How many inputs of the same kind the attacker has.
        steps: Of the white-box search.
        prior: The weight of the total variation in the white-box search.
        recipe: How the decoder is trained.
        seed: Decides which inputs are attacked, and the decoder's training.
    """
    if attacker not in ("white_box", "decoder"):
        raise bad_parameter("invert", "attacker", "'white_box' or 'decoder'", attacker)
    own, attacked = split_known(model, data, count, known, seed)
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
        model.logits(attacked.x)  # refuses NaN, in the weights too
        exposed = Exposed.at(model, slice)
        truth, mine = model.check_inputs(attacked.x), model.check_inputs(own.x)
        scale = Scale.of(mine, model.bounds)
        with torch.no_grad():
            z = exposed.activations(truth)
        if attacker == "white_box":
            found = white_box(exposed.activations, z, scale, steps=steps, prior=prior)
        else:
            with torch.no_grad():
                seen = torch.cat([exposed.activations(x) for (x,) in in_batches(mine)])
            units = decode(seen, scale.units(mine).float(), z, exposed.shapes(truth), recipe=recipe, seed=seed)
            found = scale.inputs(units.to(truth.dtype))
        low, high = model.bounds or (float(truth.min()), float(truth.max()))
        return Inversion(
            provenance=provenance(),
            slice=str(exposed.place),
            attacker=attacker,
            error=measures.relative_error(scale.units(truth), scale.units(found), torch.zeros_like(scale.mean), seed),
            ssim=measures.similarity(truth, found, high - low, seed),
            reidentified=measures.reidentification_rate(scale.units(truth), scale.units(found)),
            candidates=len(truth),
            truth=truth[:SHOWN].cpu(),
            reconstructed=found[:SHOWN].cpu(),
            bounds=model.bounds,
        )


def white_box(
    h: Callable[[torch.Tensor], torch.Tensor], z: torch.Tensor, scale: Scale, *, steps: int = 300, prior: float = 0.3
) -> torch.Tensor:
    """The inputs `(n, ...)` whose activations come nearest to `z: (n, numbers)`: h's weights are known.

    Minimises ‖h(x) − z‖² / ‖h(mean) − z‖² + prior · TV(x − mean) from the mean input (He et al.'s equation 3; of the
    difference to the mean, so that an h that tells nothing leaves the mean as the guess). Adam, whose steps and whose
    prior fall to 0: z has no noise, so at the end it alone should count.
    """
    start = scale.inputs(torch.zeros_like(scale.mean)[None].expand(len(z), *scale.mean.shape))
    with torch.no_grad():
        far = (h(start) - z).square().sum(dim=1).clamp_min(1e-12)
    u = torch.zeros_like(start).requires_grad_()
    optimizer = torch.optim.Adam([u])
    with progress.task("white-box inversion", steps) as task, torch.enable_grad():
        for step in range(steps):
            left = 1 - step / steps
            optimizer.param_groups[0]["lr"] = 0.1 * left
            misfit = (h(scale.mean + scale.spread * u) - z).square().sum(dim=1) / far
            loss = misfit.sum() + prior * left**2 * _variation(u)
            (u.grad,) = torch.autograd.grad(loss, u)
            optimizer.step()
            if scale.bounds is not None:
                with torch.no_grad():
                    u.copy_(scale.units(scale.inputs(u)))
            task.advance()
    return scale.inputs(u.detach())


def _variation(u: torch.Tensor) -> torch.Tensor:
    """The total variation of pictures `(n, c, h, w)` per pixel, summed over the examples; 0 for anything else."""
    if u.ndim != 4:
        return u.new_zeros(())
    down, right = (u[:, :, 1:] - u[:, :, :-1]).abs(), (u[..., 1:] - u[..., :-1]).abs()
    return (down.sum() + right.sum()) / u[0].numel()
