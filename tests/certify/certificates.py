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
from modelkeep.certify import verifier
from modelkeep.certify.certificate import make_certificate
from modelkeep.certify.certification import Certify
from modelkeep.certify.verifier import binding
from modelkeep.core.signing import Signer, canonical
from modelkeep.training import Adam, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import cnn_2c2f


@dataclass(frozen=True)
class Handed:
    """What the receiver gets, and the sender's key."""

    certificate: Path
    weights: Path
    data: verifier.Given
    key: Path

    @property
    def inputs(self) -> np.ndarray[Any, Any]:
        return self.data.x

    @property
    def signer(self) -> str:
        """The public key that the receiver trusts."""
        return Signer.at(self.key).public_key

    def verify(self, certificate: Path, **given: Any) -> verifier.Report:
        """What the verifier says to a receiver who has everything; some of it may be `given` in another way."""
        return verifier.verify(
            certificate, **{"weights": self.weights, "data": self.data, "signer": self.signer, **given}
        )

    def changed(
        self, to: Path, change: Callable[[dict[str, Any]], None], *, sign: bool = True, rebind: bool = False
    ) -> Path:
        """The certificate after `change`, at `to`; signed again by the sender, who may be the one who cheats.

        He may also compute the hashes again of what it says that it is of.
        """
        content = json.loads(self.certificate.read_bytes())
        change(content)
        if rebind:
            rebound(content)
        if sign:
            del content["signature"]
            content["signature"] = Signer.at(self.key).sign(canonical(content))
        to.write_text(json.dumps(content))
        return to


def rebound(content: dict[str, Any]) -> None:
    """Compute the hashes of the network and of the data set again, as if all inputs were the whole set."""
    entries = content["inputs"]
    content["data"] |= {"rows": len(entries), "chosen": None}
    rows, labels = [e["sha256"] for e in entries], [e["label"] for e in entries]
    content["binds"] = {
        "network": binding.network_hash(content),
        "data": binding.data_hash(rows, labels, content["model"]["classes"]),
    }


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
    given = verifier.Given(data.x.numpy(), data.y.numpy(), data.classes)
    return Handed(made.write(folder / "certificate.json"), weights, given, key)
