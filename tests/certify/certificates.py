"""Certificates to tamper with: a small MinMax network on digits, its certificate, and everything that goes with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modelkeep import Data, Model
from modelkeep.certify.certificate import make_certificate
from modelkeep.certify.certification import Certify
from modelkeep.core.signing import Signer, canonical
from modelkeep.training import Adam, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import cnn_2c2f


@dataclass(frozen=True)
class Handed:
    """What the receiver gets, and the sender's key."""

    certificate: Path
    weights: Path
    inputs: np.ndarray[Any, Any]
    key: Path

    def changed(self, to: Path, change: Callable[[dict[str, Any]], None], *, sign: bool = True) -> Path:
        """The certificate after `change`, at `to`; signed again by the sender, who may be the one who cheats."""
        content = json.loads(self.certificate.read_bytes())
        change(content)
        if sign:
            del content["signature"]
            content["signature"] = Signer.at(self.key).sign(canonical(content))
        to.write_text(json.dumps(content))
        return to


def digits_model() -> Model:
    """A MinMax network that has learned a little of the digits."""
    train = datasets.load("digits").first(500)
    torch.manual_seed(0)
    model = Model(
        cnn_2c2f((1, 8, 8), 10),
        input_shape=(1, 8, 8),
        classes=train.classes,
        architecture="modelkeep.architectures:cnn_2c2f",
        arguments={"input_shape": [1, 8, 8], "classes": 10},
    )
    fit(model, train, cross_entropy, Recipe(epochs=4, optimizer=Adam(), learning_rate=3e-3), seed=0)
    return model


def digits(n: int) -> Data:
    """A few test digits."""
    return datasets.load("digits", "test").sample(n, seed=0)


def hand_over(folder: Path, radius: float = 0.05) -> Handed:
    """Train, certify, sign and write all files to `folder`."""
    model, data, key = digits_model(), digits(30), folder / "key.pem"
    made = make_certificate(Certify(radius=radius), model, data, name="digits").sign(Signer.at(key))
    weights = model.save(folder / "digits.safetensors")
    return Handed(made.write(folder / "certificate.json"), weights, data.x.numpy(), key)
