"""Feature denoising: blocks inside a network that smooth its feature maps (Xie2019; Saha2020, section 2.3.1).

A block is a denoising operation, a 1×1 convolution and a residual connection. The convolution starts at zero, so a
network with new blocks gives the same logits as without them; what the blocks do is learned in (adversarial) training.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, pad

from modelkeep.core.errors import ModelError, SliceError, bad_parameter
from modelkeep.core.formats.factory import build_ours
from modelkeep.core.model import Model
from modelkeep.core.slices.halves import unknown_place

Kind = Literal["gaussian", "dot product", "mean", "median"]


def with_denoising(model: Model, after: Sequence[str], *, kind: Kind = "gaussian", seed: int = 0) -> Model:
    """A copy of the model with a denoising block after each of the named modules; its logits are unchanged at first.

    A module called `conv1` becomes `conv1.layer` followed by `conv1.denoise`. A model that was built by a factory of
    `modelkeep.zoo.architectures` can be saved with its blocks, and read with
    `Model.load("modelkeep.harden.denoising:denoised", weights=path)`.

    Args:
        model: Any network with feature maps `(n, channels, height, width)` at the named places.
        after: Names of modules, as in `model.module.named_modules()`.
        kind: "gaussian" (non-local means, equations 2.17 and 2.18), "dot product", "mean" or "median".
        seed: For the first weights of the Gaussian's embeddings.

    >>> from modelkeep.zoo.architectures import small_cnn
    >>> model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=10)
    >>> denoised = with_denoising(model, after=("conv1", "conv2"))
    >>> torch.equal(denoised.logits(model.probe()), model.logits(model.probe()))
    True
    """
    if isinstance(after, str) or not after or len(set(after)) != len(after):
        raise bad_parameter("with_denoising", "after", "one or more different names of modules", after)
    channels = _channels(model, after)
    module = copy.deepcopy(model.module)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        _insert(module, channels, kind)
    architecture, arguments = None, {}
    if model.card.architecture is not None and model.card.architecture != DENOISED:
        architecture = DENOISED
        arguments = {
            "network": model.card.architecture,
            "arguments": model.card.arguments,
            "channels": channels,
            "kind": kind,
        }
    card = replace(model.card, architecture=architecture, arguments=arguments)
    made = Model.from_card(module.to(model.dtype), card, model.device)
    if not torch.equal(made.logits(made.probe()), model.logits(made.probe())):
        raise ModelError(
            f"New denoising blocks after {', '.join(after)} change the network's answers, which they must not. "
            "Is the network random, or are its features infinite?"
        )
    return made


DENOISED = "modelkeep.harden.denoising:denoised"


def denoised(network: str, arguments: Mapping[str, Any], channels: Mapping[str, int], kind: Kind) -> nn.Module:
    """The factory behind a saved model: a network of `modelkeep.zoo.architectures` with blocks after named modules."""
    module = build_ours(network, arguments, "A denoised model")
    _insert(module, channels, kind)
    return module


class Denoise(nn.Module):
    """x + W·denoise(x) for feature maps `x: (n, channels, height, width)`, with W a 1×1 convolution that starts at 0.

    The operations average over all positions j of the feature map (2.17): y_i = 1/C(x) Σ_j f(x_i, x_j)·x_j, with
    f = exp(θ(x_i)ᵀφ(x_j)/√d) and C(x) its sum for "gaussian" (2.18), and f = x_iᵀx_j and C(x) the number of positions
    for "dot product"; or over the 3×3 neighbours, by their mean or median.
    """

    def __init__(self, channels: int, kind: Kind = "gaussian") -> None:
        super().__init__()
        if kind not in get_args(Kind):
            raise bad_parameter("Denoise", "kind", f"one of {', '.join(map(repr, get_args(Kind)))}", kind)
        self.kind = kind
        if kind == "gaussian":
            self.theta = nn.Conv2d(channels, channels, 1)
            self.phi = nn.Conv2d(channels, channels, 1)
        self.conv = nn.Conv2d(channels, channels, 1)
        nn.init.zeros_(self.conv.weight)
        assert self.conv.bias is not None
        nn.init.zeros_(self.conv.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        update = self.conv(self.operation(x))
        assert isinstance(update, torch.Tensor)
        return x + update

    def operation(self, x: torch.Tensor) -> torch.Tensor:
        """The denoised feature maps, before the convolution."""
        match self.kind:
            case "gaussian":
                # Not torch's fused attention, which cannot be differentiated twice, as gradient penalties must.
                weights = self.theta(x).flatten(2).mT @ self.phi(x).flatten(2) / x.shape[1] ** 0.5
                averaged: torch.Tensor = x.flatten(2) @ weights.softmax(dim=2).mT
                return averaged.view_as(x)
            case "dot product":
                # Σ_j (x_iᵀx_j)·x_j = (Σ_j x_j x_jᵀ)·x_i: the small channels × channels matrix first.
                flat = x.flatten(2)
                return (flat @ flat.mT @ flat / flat.shape[2]).view_as(x)
            case "mean":
                return avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
            case "median":
                return median_filter(x, 3)

    def extra_repr(self) -> str:
        return f"kind={self.kind!r}"


def median_filter(x: torch.Tensor, size: int) -> torch.Tensor:
    """The median of the size × size window around each pixel of `x: (n, c, h, w)`; the edge is continued outwards.

    Of an even number of values it is the upper median, and the window reaches one pixel further up and left, as in
    `scipy.ndimage.median_filter(mode="nearest")`.
    """
    before, after = size // 2, size - 1 - size // 2
    padded = pad(x, (before, after, before, after), mode="replicate")
    windows = padded.unfold(2, size, 1).unfold(3, size, 1).flatten(4)
    return windows.kthvalue(size * size // 2 + 1, dim=4).values


def _insert(module: nn.Module, channels: Mapping[str, int], kind: Kind) -> None:
    # Inner modules first: a stage that is wrapped changes the names of what is inside it.
    for name, count in sorted(channels.items(), key=lambda item: -item[0].count(".")):
        block = Denoise(count, kind)
        layer = module.get_submodule(name)
        block.train(layer.training)
        module.set_submodule(name, nn.Sequential(OrderedDict(layer=layer, denoise=block)))


def _channels(model: Model, after: Sequence[str]) -> dict[str, int]:
    """The number of channels at each place, seen in one pass over the probe."""
    parts = dict(model.module.named_modules())
    shapes: dict[str, tuple[int, ...] | None] = {}

    def note(name: str) -> Any:
        def hook(module: nn.Module, given: Any, output: Any) -> None:
            shapes[name] = tuple(output.shape) if isinstance(output, torch.Tensor) else None

        return hook

    for name in after:
        if name not in parts or name == "":
            raise unknown_place(name, "the network has no module of that name", [part for part in parts if part])
    handles = [parts[name].register_forward_hook(note(name)) for name in after]
    try:
        model.logits(model.probe())
    finally:
        for handle in handles:
            handle.remove()
    for name in after:
        shape = shapes.get(name)
        if shape is None or len(shape) != 4:
            raise SliceError(
                f"A denoising block needs feature maps (n, channels, height, width), but '{name}' gives "
                f"{'no tensor' if shape is None else shape}. Put it after a convolution or a stage of them."
            )
    return {name: (shapes[name] or ())[1] for name in after}
