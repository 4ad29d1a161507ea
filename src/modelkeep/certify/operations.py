"""Operation: one step of a network, written down so plainly that another program can compute it again.

A network that can be certified is a list of operations in the order of the run. The first is the `input`, the last
gives the logits. This list is what bounds are computed from, and what a certificate carries: its verifier has never
seen the owner's code. Shapes are without the batch; axis 0 of an example is its channels (or features).

| kind | settings | tensors | what it computes |
|---|---|---|---|
| `input` | | | the owner's input |
| `dense` | | weight, bias? | `z @ weight.T + bias` on the last axis |
| `convolution` | stride, padding, dilation, groups | weight, bias? | torch's convolution, of 1 or 2 dimensions |
| `batch_norm` | eps | mean, variance, weight?, bias? | in eval mode, on axis 0 |
| `scale` | factor, offset | factor?, offset? | `z * factor + offset`, one number or one per channel |
| `average_pool` | kernel, stride, padding | | sums over windows of zero-padded inputs, over the windows' full size |
| `mean` | axes, keep | | the mean over these axes of an example, which are then gone or (`keep`) of size 1 |
| `pad` | padding | | zeros around the last axes |
| `reshape` | | | the same numbers in another shape (`shape`) |
| `permute` | axes | | the axes of an example in another order |
| `downsample` | factor | | invertible down-sampling: space to channels, as `PixelUnshuffle` |
| `add` | coefficients | | the sum of the inputs, each times its coefficient |
| `concatenate` | axis | | the inputs one after another along an axis of an example |
| `activation` | function, and its own settings | | one of `ACTIVATIONS`, value by value |
| `group_sort` | size | | each group of neighbouring channels sorted, the largest first (MinMax: size 2) |
| `max_pool` | kernel, stride, padding, dilation | | |

`stride`, `dilation`, `kernel` have one number per spatial axis; `padding` has a pair `[before, after]` per spatial
axis (of `pad`: for the last axes). A tensor is named by its key in the module's state_dict, so that weights stand in
one place only; a constant of the owner's code that no state_dict holds is a `scale`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

_AffineKind = Literal[
    "dense",
    "convolution",
    "batch_norm",
    "scale",
    "average_pool",
    "mean",
    "pad",
    "reshape",
    "permute",
    "downsample",
    "add",
    "concatenate",
]
Kind = Literal["input", _AffineKind, "activation", "group_sort", "max_pool"]

AFFINE: frozenset[str] = frozenset(get_args(_AffineKind))
"""The kinds that are affine in their inputs together: what follows on each other can be bounded as one."""

# The largest slope of each function, rounded up where it is not a short decimal. GELU and SiLU bend below zero and
# so rise faster than 1 in between; the digits are checked in the tests.
ACTIVATIONS: Mapping[str, float] = {
    "relu": 1.0,
    "relu6": 1.0,
    "leaky_relu": 1.0,  # times the slope below zero where that is larger: see `slope`
    "elu": 1.0,  # times alpha where that is larger
    "selu": 1.7581,
    "softplus": 1.0,
    "tanh": 1.0,
    "sigmoid": 0.25,
    "hardtanh": 1.0,
    "softsign": 1.0,
    "abs": 1.0,
    "gelu": 1.1290,
    "gelu_tanh": 1.1290,
    "silu": 1.0999,
}


@dataclass(frozen=True)
class Operation:
    """One step: what kind, of which earlier operations (by name), with which settings and tensors."""

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)

    @property
    def slope(self) -> float:
        """The largest slope of an activation: its Lipschitz constant in every norm."""
        largest = ACTIVATIONS[self.settings["function"]]
        return max(largest, *(abs(float(self.settings.get(key, 0.0))) for key in ("slope", "alpha")))
