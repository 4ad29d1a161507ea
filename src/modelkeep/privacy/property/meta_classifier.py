"""The meta-classifier: which property do the reconstructions of a model speak for (Leino2022, section 8.5.1)?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.privacy.property.extractors import Extractor, make_extractor
from modelkeep.privacy.property.set_transformer import SetTransformer
from modelkeep.training import Adam, Recipe, Step, fit


class MetaClassifier(nn.Module):
    """Features of each picture, then a set transformer over those of one model: logits of the properties.

    The pictures of a set are brought to mean 0 and deviation 1, each by itself, so that a network whose gradients are
    larger than another's does not look different for that alone.
    """

    def __init__(self, channels: int, properties: int, extractor: Extractor) -> None:
        super().__init__()
        self.extract, width = make_extractor(extractor, channels)
        self.judge = SetTransformer(width, properties)

    def forward(self, sets: torch.Tensor) -> torch.Tensor:
        """`sets: (n, pictures, channels, h, w)`; gives `(n, properties)`."""
        pictures = sets.flatten(0, 1)
        spread, mean = torch.std_mean(pictures, dim=(1, 2, 3), keepdim=True)
        features = self.extract((pictures - mean) / (spread + 1e-6))
        found: torch.Tensor = self.judge(features.unflatten(0, sets.shape[:2]))
        return found


def multi_label(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
    """The cross-entropy of each property by itself, as there might be several or none."""
    logits = model.forward(x)
    return binary_cross_entropy_with_logits(logits, one_hot(y, logits.shape[1]).to(logits.dtype))


@dataclass(frozen=True)
class MetaTraining:
    """How the meta-classifier is trained: section 8.5.1, but for the extractor, where "small-cnn" is ours."""

    extractor: Extractor = "small-cnn"
    epochs: int = 100
    batch_size: int = 16
    learning_rate: float = 1e-3
    weight_decay: float = 0.01

    def __call__(self, sets: Data, *, seed: int = 0) -> Model:
        """The trained network; `sets.x: (n, pictures, channels, h, w)`, with the property of each model as its label.

        The decay is decoupled from the gradient: as an ℓ2 penalty under Adam, 0.01 would outweigh the loss.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            module = MetaClassifier(sets.input_shape[1], len(sets.classes), self.extractor)
        model = Model(module, input_shape=sets.input_shape, classes=sets.classes, bounds=None)
        recipe = Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            optimizer=Adam(weight_decay=self.weight_decay, decoupled=True),
        )
        fit(model, sets, multi_label, recipe, seed=seed)
        return model
