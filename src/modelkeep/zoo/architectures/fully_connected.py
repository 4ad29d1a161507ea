"""Dense networks, for tables and small images."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from modelkeep.zoo.architectures.layers import Activation, Layers, check, classifier


def dense(
    input_shape: Sequence[int], classes: int, hidden: Sequence[int] | None = None, activation: Activation = "relu"
) -> nn.Module:
    """Hidden layers of the given widths, then logits; `hidden=[]` is logistic regression.

    Without `hidden`: one layer of 2n units for n features, as for the tables of Leino2022, section 8.3.3. The
    network for ACAS Xu in its appendix B is `hidden=[1000, 1000, 1000], activation="minmax"`.

    >>> [name for name, _ in dense([30], 2).named_children()]
    ['flatten', 'linear1', 'linear1_relu', 'logits']
    """
    check("dense", input_shape, classes, image=False)
    widths = [2 * math.prod(input_shape)] if hidden is None else hidden
    return classifier("dense", Layers(), input_shape, classes, widths, activation=activation)
