"""Integer network: dense layers modulo 2^k, with a table after each but the last."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from modelkeep.core.errors import InputError
from modelkeep.core.results import Tensor
from modelkeep.encrypt.integers.ring import Ring, require_integers
from modelkeep.encrypt.integers.table import Table


@dataclass(frozen=True, eq=False)
class Encoder:
    """How the owner of the data makes integers of an input: `round((x - low) / step)`, held in 0 … levels.

    `low` and `step` are per feature, `(features,)`.
    """

    low: Tensor = field(repr=False)
    step: Tensor = field(repr=False)
    levels: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The integers of inputs `x: (n, ...)`, as `(n, features)`."""
        flat = x.flatten(1).to(self.low.dtype)
        if flat.shape[1] != len(self.low):
            raise InputError(
                f"The network takes {len(self.low)} features. Got {flat.shape[1]} (shape {tuple(x.shape)})."
            )
        if not bool(flat.isfinite().all()):
            raise InputError("Inputs must be finite. Got NaN or infinity.")
        return ((flat - self.low) / self.step).round().clamp(0, self.levels).long()


@dataclass(frozen=True, eq=False)
class IntegerLayer:
    """`table(weight x + bias)`, all of it integers. `weight: (out, in)`, `bias: (out,)`."""

    weight: Tensor = field(repr=False)
    bias: Tensor = field(repr=False)
    table: Table | None = None

    def __post_init__(self) -> None:
        require_integers(self.weight)
        require_integers(self.bias)
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[:1]:
            raise InputError(
                f"A layer needs weight (out, in) and bias (out,). Got {tuple(self.weight.shape)} and "
                f"{tuple(self.bias.shape)}."
            )

    def without_bias(self) -> IntegerLayer:
        """The bare matrix product."""
        return IntegerLayer(self.weight, torch.zeros_like(self.bias))

    def reach(self, least: int, most: int) -> tuple[int, int]:
        """The least and the largest sum before any reduction, where every input lies from `least` to `most`."""
        positive, negative = self.weight.clamp(min=0).sum(1), self.weight.clamp(max=0).sum(1)
        low = positive * least + negative * most + self.bias
        high = positive * most + negative * least + self.bias
        return int(low.min()), int(high.max())


@dataclass(frozen=True, eq=False)
class IntegerNetwork:
    """A classifier over the integers modulo 2^k (Saha2020, section 3.4). The scores are the last layer's sums.

    >>> layer = IntegerLayer(torch.tensor([[3, 1], [0, 2]]), torch.tensor([0, 1]))
    >>> encoder = Encoder(torch.zeros(2), torch.full((2,), 1 / 3), levels=3)
    >>> network = IntegerNetwork(encoder, (layer,), Ring(5))
    >>> network.scores(encoder(torch.tensor([[1.0, 0.34]])))
    tensor([[10,  3]])
    """

    encoder: Encoder
    layers: tuple[IntegerLayer, ...]
    ring: Ring

    def __post_init__(self) -> None:
        widths = [len(self.encoder.low), *(len(layer.bias) for layer in self.layers)]
        for number, (layer, width) in enumerate(zip(self.layers, widths, strict=False), start=1):
            if layer.weight.shape[1] != width:
                raise InputError(f"Layer {number} takes {layer.weight.shape[1]} integers, and is given {width}.")
            if layer.table is not None and layer.table.bits > self.ring.bits:
                raise InputError(
                    f"The table of layer {number} reads {layer.table.bits} bits; the ring has {self.ring.bits}."
                )

    def scores(self, integers: torch.Tensor) -> torch.Tensor:
        """The scores `(n, classes)` of encoded inputs `(n, features)`."""
        return self.scores_behind(0, integers)

    def scores_behind(self, skipped: int, integers: torch.Tensor) -> torch.Tensor:
        """The scores of what the first `skipped` layers gave."""
        for layer in self.layers[skipped:]:
            integers = self._sums(layer, integers)
            if layer.table is not None:
                integers = layer.table(integers)
        return integers

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        """The label of each input: the first of the largest scores."""
        return self.scores(self.encoder(x)).argmax(1)

    def reaches(self) -> tuple[tuple[int, int], ...]:
        """The least and the largest sum of each layer over *all* encoded inputs, before reduction."""
        found, least, most = [], 0, self.encoder.levels
        for layer in self.layers:
            found.append(layer.reach(least, most))
            if layer.table is not None:
                least, most = int(layer.table.entries.min()), int(layer.table.entries.max())
        return tuple(found)

    @property
    def never_wraps(self) -> bool:
        """Whether no input at all can make a sum leave the ring."""
        return all(Ring.holding(*reach).bits <= self.ring.bits for reach in self.reaches())

    def count_wrapped(self, integers: torch.Tensor) -> int:
        """How many sums left the ring and came back elsewhere, over all layers and rows."""
        wrapped = 0
        for layer in self.layers:
            exact = integers @ layer.weight.T + layer.bias
            wrapped += int((exact != self.ring.wrap(exact)).sum())
            integers = self._sums(layer, integers)
            if layer.table is not None:
                integers = layer.table(integers)
        return wrapped

    def _sums(self, layer: IntegerLayer, integers: torch.Tensor) -> torch.Tensor:
        return self.ring.wrap(self.ring.matmul(integers, layer.weight.T) + layer.bias)
