"""Concepts: directions at a slice that are learned from examples of something that has a name.

Kim2018; Leino2022, section 3.3. Where the slice has a feature map the activations are averaged over its positions: a
concept is then a direction among the channels, wherever in the image it shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.explain.meaning.exemplars import is_map
from modelkeep.explain.orientation import oriented_slice, require_channels

FEWEST = 6  # examples on each side: two of them are held out
_HELD_OUT = 1 / 3
_RIDGE = 0.1  # the penalty per example, in units of the standardised activations


@dataclass(frozen=True, kw_only=True, eq=False)
class Concept(Result, kind="concept"):
    """A direction at a slice, `vector: (units,)`, that tells examples of a concept from others.

    It is one standard deviation long: that of each unit over the examples, in the shares that the classifier gives
    them. `accuracy` is that of the linear classifier on examples it was not fitted to, as many of either kind: where
    it is not clearly above one half the concept is not linearly `there`, and the vector means nothing.
    `higher: (units,)` counts for each unit in how many of `pairs` the example of the concept activates it more than
    the other one. `pool: (n, units)` and `labels: (n,)` are what the vector was fitted to.
    """

    name: str
    slice: str
    call: int | None
    accuracy: Estimate
    pairs: int
    spatial: bool = field(repr=False)
    vector: Tensor = field(repr=False)
    higher: Tensor = field(repr=False)
    pool: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)

    @property
    def there(self) -> bool:
        """Whether the activations at the slice tell the concept from other examples."""
        return self.accuracy.low > 0.5

    def unit(self, index: int) -> Estimate:
        """How often the unit alone is more active on an example of the concept than on another (½: unrelated)."""
        return Estimate.rate(int(self.higher[index]), self.pairs)

    def rows(self) -> list[tuple[str, str]]:
        kind = "channel" if self.spatial else "unit"
        order = (self.higher - self.pairs / 2).abs().argsort(descending=True, stable=True)[:3].tolist()
        return [
            ("concept", self.name),
            ("at", self.slice if self.call is None else f"{self.slice}, call {self.call}"),
            ("held-out accuracy", f"{self.accuracy}{'' if self.there else ': not linearly there'}"),
            ("units that tell it", ", ".join(f"{kind} {i} {self.unit(i).value:.2f}" for i in order)),
        ]


def learn_concept(
    model: Model,
    examples: Data | torch.Tensor,
    others: Data | torch.Tensor,
    *,
    slice: str,
    name: str,
    call: int | None = None,
    batch_size: int = 64,
    seed: int = 0,
) -> Concept:
    """The direction at the slice that tells `examples` of a concept from `others`, and how well it does.

    Args:
        model: The model; it is left as it was.
        examples: Inputs that show the concept, six or more. Labels are not used.
        others: Inputs that do not, but are like them in all else. The larger set is drawn down to the smaller one's
            size, so that one half is what guessing gives.
        slice: A name from `model.slices()`; `call` says which call of a module that is called more than once.
        name: What results call the concept.
        batch_size: Examples that are run at once.
        seed: For what is held out (a third) and drawn.
    """
    inputs = []
    for side, given in (("examples", examples), ("others", others)):
        if isinstance(given, Data):
            model.require_fit(given)
        inputs.append(model.check_inputs(given.x if isinstance(given, Data) else given))
        if len(inputs[-1]) < FEWEST:
            raise bad_parameter("learn_concept", side, f"at least {FEWEST} inputs", len(inputs[-1]))
    n = min(len(x) for x in inputs)
    fingerprint = examples.fingerprint() if isinstance(examples, Data) else None
    generator = torch.Generator().manual_seed(seed)
    with measured(seed, model.fingerprint(), fingerprint) as provenance, model.frozen(seed):
        model.logits(inputs[0][:1])  # a damaged model is refused, also where the damage is above the slice
        require_channels(model, slice, call, axes=3)
        cutting = oriented_slice(model, slice, call=call)
        spatial = is_map(cutting.h(inputs[0][:1]).value.shape[1:])
        sides = []
        with progress.task(f"Concept {name}", 2 * n) as task:
            for x in inputs:
                drawn = x[torch.randperm(len(x), generator=generator)[:n].to(x.device)]
                parts = []
                for part in torch.split(drawn, batch_size):
                    with torch.no_grad():
                        value = cutting.h(part).value
                    parts.append((value.mean(dim=(2, 3)) if spatial else value.flatten(1)).cpu().double())
                    task.advance(len(part))
                sides.append(torch.cat(parts))
        kept = n - round(_HELD_OUT * n)
        pool, held_out = torch.cat([side[:kept] for side in sides]), [side[kept:] for side in sides]
        labels = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(kept)
        direction = torch.nn.functional.normalize(ridge(pool, labels[:, None])[:, 0], dim=0, eps=1e-30)
        scores = [(side - pool.mean(dim=0)) * _inverse(pool) @ direction for side in held_out]
        right = int((scores[0] > 0).sum() + (scores[1] < 0).sum())
        return Concept(
            provenance=provenance(),
            name=name,
            slice=slice,
            call=call,
            accuracy=Estimate.rate(right, 2 * (n - kept)),
            pairs=n,
            spatial=spatial,
            vector=pool.std(dim=0, correction=0) * direction,
            # A tie, as between two inactive units, is half a win.
            higher=(sides[0] > sides[1]).sum(dim=0) + (sides[0] == sides[1]).sum(dim=0) // 2,
            pool=pool,
            labels=labels,
        )


def ridge(pool: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Ridge regression of `labels: (n, k)`, each column half 1 and half -1, on `pool: (n, units)`: `(units, k)`.

    The weights are those of the standardised activations, so that no unit counts more because its numbers are small.
    In the dual form all columns share one factor.
    """
    standard = (pool - pool.mean(dim=0)) * _inverse(pool)
    gram = standard @ standard.T + _RIDGE * len(pool) * torch.eye(len(pool), dtype=pool.dtype)
    weights: torch.Tensor = standard.T @ torch.linalg.solve(gram, labels)
    return weights


def _inverse(pool: torch.Tensor) -> torch.Tensor:
    """One over the standard deviation of each unit, or 0 where it does not vary."""
    spread = pool.std(dim=0, correction=0)
    return torch.where(spread > 0, 1 / spread.clamp(min=1e-30), 0.0)
