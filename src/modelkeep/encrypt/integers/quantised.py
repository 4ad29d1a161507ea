"""Quantise a trained float network: train it on with integers in the forward pass, and read the integers out."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace

import torch

from modelkeep.core.black_box import require_access
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.encrypt.integers.network import IntegerNetwork
from modelkeep.encrypt.integers.straight_through import Bits, StraightThrough
from modelkeep.training import Adam, Recipe, cross_entropy, fit

RECIPE = Recipe(epochs=20, batch_size=64, optimizer=Adam(), learning_rate=1e-3)


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantised(Result, kind="quantised"):
    """An integer network, and its accuracy beside that of the float network, on held-out data.

    `rounded_accuracy` is that of the same bits without further training. `wrapped` counts the sums
    of the held-out data that left the ring; with the default modulus no input at all can make one do so.
    """

    network: IntegerNetwork = field(repr=False)
    bits: Bits
    float_accuracy: Estimate
    rounded_accuracy: Estimate
    integer_accuracy: Estimate
    same_labels: Estimate
    wrapped: int

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("integers modulo", f"2^{self.network.ring.bits}"),
            ("bits", f"inputs {self.bits.inputs}, weights {self.bits.weights}, activations {self.bits.activations}"),
            ("accuracy, float", str(self.float_accuracy)),
            ("accuracy, rounded without training", str(self.rounded_accuracy)),
            ("accuracy, integers", str(self.integer_accuracy)),
            ("same label as float", str(self.same_labels)),
            ("sums that wrap", "none, for any input" if self.network.never_wraps else f"{self.wrapped} on these data"),
        ]


def quantise(
    model: Model,
    data: Data,
    *,
    held_out: Data,
    bits: Bits | None = None,
    recipe: Recipe = RECIPE,
    seed: int = 0,
) -> Quantised:
    """Make an integer network of a dense float network; the model stays as it is.

    Args:
        model: A trained network of Linear layers and activations.
        data: What it is trained on further. They also give the range of each feature.
        held_out: What all accuracies are measured on.
        bits: The sizes of inputs, weights and activations, and the modulus.
        recipe: The further training.
        seed: For all that is random.

    >>> from torch import nn
    >>> from modelkeep.encrypt import quantise
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> quantised = quantise(model, data, held_out=data, recipe=Recipe(steps=60, learning_rate=0.05))
    >>> quantised.integer_accuracy.value, quantised.network.ring.bits
    (1.0, 9)
    """
    require_access(model.access, "weights", "Quantisation", "")
    model.require_fit(data)
    bits = bits if bits is not None else Bits()
    with measured(seed, model.fingerprint(), data.fingerprint(), model.warnings) as provenance:
        x = model.preprocess(data.load().x)
        low, high = x.flatten(1).amin(0), x.flatten(1).amax(0)
        module = StraightThrough(copy.deepcopy(model.module), low, high, bits)
        module.calibrate(x)
        # The preprocessing is the data owner's: the network of integers begins behind it.
        rounded = module.to_integers()
        card = replace(model.card, architecture=None, arguments={}, guarantee=None)
        fit(Model.from_card(module, card, model.device), data, cross_entropy, recipe, seed=seed)
        network = module.to_integers()
        theirs = model.preprocess(held_out.load().x)
        labels, floats = network.predict(theirs), model.predict(held_out.x)
        return Quantised(
            provenance=provenance(),
            network=network,
            bits=bits,
            float_accuracy=_share(floats == held_out.y),
            rounded_accuracy=_share(rounded.predict(theirs) == held_out.y),
            integer_accuracy=_share(labels == held_out.y),
            same_labels=_share(labels == floats),
            wrapped=network.count_wrapped(network.encoder(theirs)),
        )


def _share(right: torch.Tensor) -> Estimate:
    return Estimate.rate(int(right.sum()), len(right))
