"""Initialisation: draw the missing parameters anew, by each layer's own rule or by a scheme of procedure T4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import nan
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import init

from modelkeep.completion.part import Part
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.training.batches import derive_seed
from modelkeep.training.part import load_into, tensors_of

Scheme = Literal["own", "glorot uniform", "glorot normal", "msra", "caffe", "orthogonal"]

_DRAW: dict[Scheme, Callable[[torch.Tensor], Any]] = {
    "glorot uniform": init.xavier_uniform_,
    "glorot normal": init.xavier_normal_,
    "msra": partial(init.kaiming_normal_, nonlinearity="relu"),  # N(0, 2 / fan_in): He2015, eq. 10
    "caffe": partial(init.kaiming_uniform_, nonlinearity="linear"),  # U(±√(3 / fan_in)), Caffe's "xavier" filler
    "orthogonal": init.orthogonal_,
}
SCHEMES = tuple(_DRAW)
"""The schemes of T4: all but "own"."""


def reset(module: nn.Module, part: Part, *, scheme: Scheme = "own", seed: int = 0) -> None:
    """Put θ_0² in the place of θ_N²: draw the missing part anew, and keep everything else to the bit.

    `scheme` is for weights, that is for parameters of two dimensions and more. Biases, normalisations and their
    statistics are reset by their own module's `reset_parameters`, and so is everything under "own". The missing
    values have no influence on what is drawn.
    """
    if scheme != "own" and scheme not in _DRAW:
        raise bad_parameter("reset", "scheme", f"'own' or one of {', '.join(map(repr, _DRAW))}", scheme)
    missing, tensors = part.missing_elements(module), tensors_of(module)
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    for name in missing:
        tensors[name].fill_(nan)  # so that a parameter which nothing draws is found
    # Each part has draws of its own, or a layer would begin as in the original training of the same seed.
    with seed_draws(derive_seed(seed, f"reset {part.name}"), next(iter(tensors.values())).device):
        # Children first, as constructors have it: some parents draw their children's parameters once more.
        for name, layer in reversed(list(module.named_modules())):
            own = {f"{name}.{found}".lstrip(".") for found, _ in layer.named_parameters(recurse=False)}
            redraw = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
            if redraw is not None and (name in part or not own.isdisjoint(missing)):
                redraw()
        if scheme != "own":
            for name in missing:
                if tensors[name].dim() > 1:
                    _DRAW[scheme](tensors[name])
    for name, tensor in tensors.items():
        if name in missing:
            tensor.copy_(torch.where(missing[name], tensor, kept[name]))
        elif part.share < 1 or name not in part:
            tensor.copy_(kept[name])
    if unknown := [name for name in missing if tensors[name].isnan().any()]:
        load_into(module, kept)
        raise InputError(
            f"No module says how '{unknown[0]}' is drawn. Give its module a method reset_parameters that draws it, "
            "or leave it out of the part."
        )


@contextmanager
def seed_draws(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators for the block, and restore them after it."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        # Not torch.manual_seed, which would also seed devices that are not restored.
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            torch.cuda.manual_seed(seed)
        yield
