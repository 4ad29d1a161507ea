"""The papers' networks and a few small ones: plain factories `factory(input_shape, classes, …)` that give logits.

Arguments are JSON values, so a model's card can keep them; submodules bear the papers' names, so slices can too.
"""

from __future__ import annotations

from modelkeep.zoo.architectures.alexnets import alexnet, small_alexnet
from modelkeep.zoo.architectures.certifiable import cnn_2c2f, cnn_4c3f, cnn_6c2f, cnn_8c2f, cnn_8c2f_full
from modelkeep.zoo.architectures.cnn import deep_cnn, lenet, shallow_cnn, small_cnn
from modelkeep.zoo.architectures.efficientnet import efficientnet_lite0
from modelkeep.zoo.architectures.fully_connected import dense
from modelkeep.zoo.architectures.liresnet import small_liresnet
from modelkeep.zoo.architectures.minilm import minilm
from modelkeep.zoo.architectures.minmax import MinMax
from modelkeep.zoo.architectures.resnet import resnet50, small_resnet
from modelkeep.zoo.architectures.resnet50_v1 import resnet50_v1
from modelkeep.zoo.architectures.text import text_lstm, text_transformer
from modelkeep.zoo.architectures.vgg import vgg16_bn

__all__ = [
    "MinMax",
    "alexnet",
    "cnn_2c2f",
    "cnn_4c3f",
    "cnn_6c2f",
    "cnn_8c2f",
    "cnn_8c2f_full",
    "deep_cnn",
    "dense",
    "efficientnet_lite0",
    "lenet",
    "minilm",
    "names",
    "resnet50",
    "resnet50_v1",
    "shallow_cnn",
    "small_alexnet",
    "small_cnn",
    "small_liresnet",
    "small_resnet",
    "text_lstm",
    "text_transformer",
    "vgg16_bn",
]


_FOR_TEXTS = ("minilm", "text_lstm", "text_transformer")


def names() -> tuple[str, ...]:
    """The names of the factories for one tensor; those for texts take the size of a vocabulary instead of a shape.

    >>> "small_cnn" in names()
    True
    """
    return tuple(name for name in __all__ if name not in ("MinMax", "names", *_FOR_TEXTS))
