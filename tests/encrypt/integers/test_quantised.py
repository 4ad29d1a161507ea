"""A network of 3-bit integers is as good as its float network on digits, and its result survives JSON."""

from __future__ import annotations

import torch
from torch import nn

from digits import digits_dense, held_out_digits, training_digits
from encrypt.integers.test_network import brute_force
from modelkeep.core.results import Result
from modelkeep.encrypt import Bits, quantise
from modelkeep.encrypt.integers.quantised import Quantised
from modelkeep.training import Recipe


def test_three_bits_are_enough_for_digits() -> None:
    model = digits_dense()
    before = model.fingerprint()
    found = quantise(
        model, training_digits(), held_out=held_out_digits(), bits=Bits(3, 3, 3), recipe=Recipe(epochs=3, batch_size=64)
    )
    assert model.fingerprint() == before
    assert found.network.never_wraps
    assert found.wrapped == 0
    assert found.integer_accuracy.high > found.float_accuracy.value - 0.02
    read = Result.from_json(found.to_json())
    assert isinstance(read, Quantised)
    rows = found.network.encoder(held_out_digits().x[:3])
    assert read.network.scores(rows).tolist() == [brute_force(found.network, row) for row in rows.tolist()]


def test_preprocessing_stays_with_the_owner_of_the_data() -> None:
    from modelkeep import Data, Model, Preprocessing

    data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes, preprocessing=Preprocessing((0.5,), (0.25,)))
    found = quantise(model, data, held_out=data, recipe=Recipe(steps=60, learning_rate=0.05))
    assert found.integer_accuracy.value == 1.0
    assert found.network.encoder.low.tolist() == [-2.0] * 4
