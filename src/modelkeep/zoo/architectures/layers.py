"""What the factories share: checks of what they are given, activations, and the dense top of a classifier."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.zoo.architectures.minmax import MinMax

Activation = Literal["relu", "minmax"]
Layers = OrderedDict[str, nn.Module]


def check(factory: str, input_shape: Sequence[int], classes: int, *, image: bool = True) -> None:
    """Refuse an input shape or a number of classes that no classifier has."""
    if min(input_shape, default=0) < 1 or (image and len(input_shape) != 3):
        wanted = "(channels, height, width)" if image else "one or more sizes"
        raise bad_parameter(factory, "input_shape", f"{wanted}, each at least 1", input_shape)
    if classes < 2:
        raise bad_parameter(factory, "classes", "at least 2", classes)


def activate(factory: str, activation: str, width: int) -> nn.Module:
    """A new activation module for `width` features."""
    if activation not in ("relu", "minmax"):
        raise bad_parameter(factory, "activation", "'relu' or 'minmax'", activation)
    if activation == "minmax" and width % 2:
        raise InputError(f"MinMax sorts pairs, so {factory} needs layers of an even width for it. Got width {width}.")
    return MinMax() if activation == "minmax" else nn.ReLU()


def classifier(
    factory: str,
    features: Layers,
    input_shape: Sequence[int],
    classes: int,
    hidden: Sequence[int],
    *,
    activation: Activation = "relu",
    dropout: float = 0.0,
    bias: bool = True,
) -> nn.Sequential:
    """`features`, flattened, then `linear1`, `linear2` … of the `hidden` widths, then `logits` (`bias` is theirs)."""
    layers = Layers(features, flatten=nn.Flatten())
    width = _flat_size(factory, nn.Sequential(layers), input_shape)
    for i, wide in enumerate(hidden, start=1):
        if wide < 1:
            raise bad_parameter(factory, "hidden", "a list of widths, each at least 1", hidden)
        layers[f"linear{i}"] = nn.Linear(width, wide)
        layers[f"linear{i}_{activation}"] = activate(factory, activation, wide)
        if dropout:
            layers[f"linear{i}_dropout"] = nn.Dropout(dropout)
        width = wide
    layers["logits"] = nn.Linear(width, classes, bias=bias)
    return nn.Sequential(layers)


def _flat_size(factory: str, features: nn.Module, input_shape: Sequence[int]) -> int:
    """How many numbers `features` makes of one input, found on the meta device: nothing is computed or drawn."""
    state = {name: tensor.to("meta") for name, tensor in features.state_dict().items()}
    features.eval()  # batch statistics of a single input do not exist
    try:
        made = torch.func.functional_call(features, state, (torch.empty(1, *input_shape, device="meta"),))
    except RuntimeError as error:
        raise InputError(
            f"Images of shape {tuple(input_shape)} are too small for {factory} ({error}). Enlarge them first."
        ) from error
    finally:
        features.train()
    return int(made.numel())
