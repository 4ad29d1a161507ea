"""Outlier exposure (appendix B.3): a network that is unsure wherever it was not trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch.nn.functional import cross_entropy

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.training import Loss, Step


@dataclass(frozen=True)
class OutlierExposure:
    """CE(f(x), y) + λ · CE(f(x_OOD), U): the labels on the data, the uniform answer on `outliers`; λ is the `weight`.

    Each batch meets as many outliers as it has examples, drawn with replacement and passed through the network
    together with them. The labels of the outliers are not looked at.
    """

    outliers: Data = field(repr=False)
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise bad_parameter("OutlierExposure", "weight", "a number of at least 0", self.weight)
        if len(self.outliers) == 0:
            raise InputError(f"'{self.outliers.name}' has no examples to be outliers.")

    @cached_property
    def name(self) -> str:
        """What a checkpoint calls it: with other outliers it is another training."""
        return f"OutlierExposure({self.weight!r}, {self.outliers.fingerprint()})"

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        if self.outliers.input_shape != x.shape[1:]:
            raise InputError(
                f"The outliers '{self.outliers.name}' have shape {self.outliers.input_shape}, "
                f"but the data to train on {tuple(x.shape[1:])}."
            )
        drawn = torch.randint(len(self.outliers), (len(x),), generator=step.generator, device=step.generator.device)
        outliers = self.outliers.x[drawn.cpu()].to(x)
        logits = model.forward(torch.cat([x, outliers]))
        exposed = -logits[len(x) :].log_softmax(dim=1).mean()  # the cross-entropy with 1/C everywhere
        return cross_entropy(logits[: len(x)], y) + self.weight * exposed, {"outlier loss": exposed}
