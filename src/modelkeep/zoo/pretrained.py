"""Models that come with real weights, by name: they are downloaded once, and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model
from modelkeep.zoo import architectures
from modelkeep.zoo.datasets import pretrained_files


def efficientnet_lite0(
    *, cache: str | Path | None = None, copy: str | Path | None = None, device: str | torch.device = "cpu"
) -> Model:
    """EfficientNet-Lite0 for ImageNet: 1,000 classes, pictures `(3, 224, 224)` with values 0 to 1, 4.65 M parameters.

    The files come from the cache at `cache`, else from the net, or from the folder `copy`.
    """
    classes = pretrained_files.imagenet_classes(cache=cache, copy=copy)
    stored = torch.load(pretrained_files.efficientnet_lite0(cache=cache, copy=copy), weights_only=True)
    arguments = {"input_shape": [3, 224, 224], "classes": len(classes)}
    with torch.random.fork_rng(devices=[]):  # the first weights are thrown away at once
        module = architectures.efficientnet_lite0((3, 224, 224), len(classes))
    ours = module.state_dict()
    # Both networks list their parts in the order of the run; only the names differ.
    if [tuple(t.shape) for t in ours.values()] != [tuple(t.shape) for t in stored.values()]:
        raise ModelError("The file is not EfficientNet-Lite0's weights: its tensors have other shapes.")
    module.load_state_dict(dict(zip(ours, stored.values(), strict=True)))
    return Model(
        module,
        input_shape=(3, 224, 224),
        classes=classes,
        # The authors normalise by 127 and 128 of 255 grey levels.
        preprocessing=Preprocessing((127 / 255,), (128 / 255,)),
        architecture="modelkeep.architectures:efficientnet_lite0",
        arguments=arguments,
        device=device,
    )


_MODELS: dict[str, Callable[..., Model]] = {"efficientnet-lite0": efficientnet_lite0}


def names() -> tuple[str, ...]:
    """The names of all pretrained models.

    >>> names()
    ('efficientnet-lite0',)
    """
    return tuple(_MODELS)


def load(name: str, *, device: str | torch.device = "cpu") -> Model:
    """The pretrained model called `name`."""
    if name not in _MODELS:
        raise ModelError(f"There is no pretrained model '{name}'. There is: {', '.join(_MODELS)}.")
    return _MODELS[name](device=device)
