"""Canaries: examples that are in a training or not by a coin, so that one can count who finds out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.privacy.private_training.objective import PrivateGradients
from modelkeep.training.batches import derive_seed
from modelkeep.training.schedules import Step


def toss(canaries: int, seed: int) -> torch.Tensor:
    """A fair coin `(canaries,)` for each: in, or out."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "coins"))
    return torch.rand(canaries, generator=generator) < 0.5


def mislabel(data: Data, canaries: int, seed: int) -> tuple[Data, Data]:
    """Some records of the data with a wrong label each, and the records that are left as they are.

    A wrong label is learned by heart or not at all: such records are the most exposed of a set.
    """
    if not 0 < canaries < len(data):
        raise InputError(f"There must be fewer canaries than records. Got {canaries} for {len(data)} records.")
    generator = torch.Generator().manual_seed(derive_seed(seed, "canaries"))
    order = torch.randperm(len(data), generator=generator)
    chosen, rest = data.take(order[:canaries]), data.take(order[canaries:])
    shift = torch.randint(1, len(data.classes), (canaries,), generator=generator)
    return replace(chosen, y=(chosen.y + shift) % len(data.classes)), rest


@dataclass(frozen=True)
class GradientCanaries(PrivateGradients):
    """Private gradients with canaries among the examples, whose gradient is `clip` at one coordinate each.

    No example can show more of itself. Each canary that is `inside: (m,)` is drawn into a step with the probability
    `rate`, as an example is. `scores: (m,)` grows by the logarithm of how much likelier the noised gradient at the
    canary's coordinate is with it than without: what an attacker would know who sees every step.
    """

    inside: torch.Tensor = field(kw_only=True, repr=False, compare=False)
    places: torch.Tensor = field(kw_only=True, repr=False, compare=False)
    rate: float = field(kw_only=True)
    scores: torch.Tensor = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def spread(
        cls, model: Model, trained: int, plain: PrivateGradients, inside: torch.Tensor, rate: float, seed: int
    ) -> GradientCanaries:
        """Give each canary a coordinate of the `trained` ones."""
        m = len(inside)
        if m > trained:
            raise InputError(
                f"A canary needs a coordinate of its own. Got {m} canaries for {trained} trained numbers. Take fewer."
            )
        generator = torch.Generator().manual_seed(derive_seed(seed, "coordinates"))
        places = torch.randperm(trained, generator=generator)[:m].to(model.device)
        return cls(
            plain.clip,
            plain.noise,
            plain.batch_size,
            inside=inside.to(model.device),
            places=places,
            rate=rate,
            scores=torch.zeros(m, dtype=torch.float64, device=model.device),
        )

    def gradients(
        self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The private gradient of the examples and of the canaries that were drawn."""
        found = super().gradients(model, x, y, step)
        trained = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
        joined = torch.cat([p.grad.flatten() for p in trained if p.grad is not None])
        drawn = torch.rand(self.inside.shape, generator=step.generator, device=model.device) < self.rate
        joined[self.places] += (drawn & self.inside) * (self.clip / self.batch_size)
        for parameter, part in zip(trained, torch.split(joined, [p.numel() for p in trained]), strict=True):
            parameter.grad = part.view_as(parameter)
        self.scores.add_(self._evidence(joined[self.places].double() * self.batch_size / self.clip))
        return found

    def _evidence(self, seen: torch.Tensor) -> torch.Tensor:
        """The log likelihood ratio of what was `seen: (m,)`, in units of the clip; without noise, what was seen."""
        if self.noise == 0:
            return seen
        gain = (2 * seen - 1) / (2 * self.noise**2)
        out = torch.tensor(1 - self.rate, dtype=seen.dtype, device=seen.device).log()
        inside = gain + torch.tensor(self.rate, dtype=seen.dtype, device=seen.device).log()
        return torch.logaddexp(out.expand_as(inside), inside)
