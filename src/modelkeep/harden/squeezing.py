"""Feature squeezing (Xu2018): an input is suspicious if the answer changes when fine detail is squeezed out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from modelkeep.attack.adaptive import shared_copy, straight_through
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.harden.denoising import median_filter
from modelkeep.harden.detection import Detector, calibrate
from modelkeep.harden.transforms import preprocessing_of


class BitDepth(nn.Module):
    """Round values within `bounds` to 2^bits levels. The gradient is zero: use `bpda`.

    >>> BitDepth(1)(torch.tensor([0.2, 0.7]))
    tensor([0., 1.])
    """

    def __init__(self, bits: int, bounds: tuple[float, float] = (0.0, 1.0)) -> None:
        super().__init__()
        if not 1 <= bits <= 16:
            raise bad_parameter("BitDepth", "bits", "from 1 to 16", bits)
        self.bits = bits
        self.bounds = bounds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = self.bounds
        step = (high - low) / ((1 << self.bits) - 1)
        return low + ((x - low) / step).round() * step

    def extra_repr(self) -> str:
        return f"bits={self.bits}, bounds={self.bounds}"


class MedianSmoothing(nn.Module):
    """The median of the size × size window around each pixel, as in `scipy.ndimage.median_filter`."""

    def __init__(self, size: int = 2) -> None:
        super().__init__()
        if size < 2:
            raise bad_parameter("MedianSmoothing", "size", "at least 2 pixels", size)
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return median_filter(x, self.size)

    def extra_repr(self) -> str:
        return f"size={self.size}"


def feature_squeezing(
    model: Model,
    clean: Data,
    squeezers: Sequence[nn.Module] | None = None,
    *,
    false_positive_rate: float = 0.05,
) -> Detector:
    """The detector whose score is the largest L1 distance between the probabilities before and after a squeezer.

    Args:
        model: The model to watch over; its weights are shared with the detector.
        clean: Clean examples, on which the threshold is chosen.
        squeezers: Modules on inputs in the owner's units; one bit per value and a 2×2 median by default, as in Xu2018.
            take for MNIST.
        false_positive_rate: The share of clean examples that may be flagged.
    """
    if squeezers is None:
        if model.bounds is None or len(model.input_shape) != 3:
            raise bad_parameter("feature_squeezing", "squeezers", "given for inputs that are not bounded images", None)
        squeezers = (BitDepth(1, model.bounds), MedianSmoothing(2))
    if not squeezers:
        raise bad_parameter("feature_squeezing", "squeezers", "one or more modules", squeezers)
    return calibrate(
        "feature squeezing",
        model,
        _Change(model, squeezers),
        clean,
        false_positive_rate=false_positive_rate,
        attackable=_Change(model, squeezers, attackable=True),
    )


class _Change(nn.Module):
    """max over squeezers s of ‖p(x) - p(s(x))‖₁.

    Rounding has no gradient, and neither has the L1 distance where both answers are sure. To be `attackable` is to give
    the same numbers with the gradients of the identity and of the divergence KL(p(x) ‖ p(s(x))) instead.
    """

    def __init__(self, model: Model, squeezers: Sequence[nn.Module], *, attackable: bool = False) -> None:
        super().__init__()
        network = shared_copy(model.module)
        self.network = nn.Sequential(OrderedDict(preprocessing=preprocessing_of(model), network=network))
        self.squeezers = nn.ModuleList(squeezers)
        self.attackable = attackable

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer = self.network(x).log_softmax(dim=1)
        return torch.stack([self._change(answer, x, squeeze) for squeeze in self.squeezers]).amax(dim=0)

    def _change(self, answer: torch.Tensor, x: torch.Tensor, squeeze: nn.Module) -> torch.Tensor:
        squeezed = squeeze(x)
        if self.attackable and not isinstance(squeeze, MedianSmoothing):  # a median has a gradient
            squeezed = straight_through(squeezed, x)
        other = self.network(squeezed).log_softmax(dim=1)
        distance: torch.Tensor = (answer.exp() - other.exp()).abs().sum(dim=1)
        if self.attackable:
            distance = straight_through(distance, (answer.exp() * (answer - other)).sum(dim=1))
        return distance
