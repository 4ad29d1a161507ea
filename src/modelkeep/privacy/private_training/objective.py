"""PrivateGradients: clipped and noised gradients as an objective of the one training loop (DP-SGD, Abadi2016)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.privacy.private_training.clipping import Clipping
from modelkeep.training.schedules import Step


@dataclass(frozen=True)
class PrivateGradients:
    """The cross-entropy, with each example's gradient cut to the norm `clip` and Gaussian noise on their sum.

    The sum is divided by `batch_size`, the expected size: with the true one, an example that is missing would change
    the others' share. Give the loop `Recipe(sampling="poisson", batch_size=batch_size)`, which the accounting assumes.
    """

    clip: float
    noise: float
    batch_size: int
    _clipping: Clipping = field(default_factory=Clipping, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise bad_parameter("PrivateGradients", "clip", "above 0", self.clip)
        if not self.noise >= 0:
            raise bad_parameter("PrivateGradients", "noise", "at least 0", self.noise)

    def gradients(
        self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Leave the private gradient in `.grad`. The loss and the share of clipped examples are NOT private."""
        trained = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
        for parameter in trained:
            parameter.grad = None
        loss, clipped = torch.zeros((), device=x.device), torch.zeros((), device=x.device)
        if len(x):  # Poisson sampling may draw no example: then the step is noise alone
            losses, norms = self._clipping.add_up(model, x, y, self.clip)
            loss, clipped = losses.mean(), (norms > self.clip).to(losses.dtype).mean()
        for parameter in trained:
            noise = torch.empty_like(parameter).normal_(0, self.noise * self.clip, generator=step.generator)
            summed = noise if parameter.grad is None else noise.add_(parameter.grad)
            parameter.grad = summed.div_(self.batch_size)
        return loss, {"clipped": clipped}
