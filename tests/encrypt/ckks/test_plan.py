"""Plans of real and drawn networks: what is decrypted is what numpy computes, within the error that was predicted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from digits import held_out_digits, training_digits
from encrypt.square_digits import square_digits
from modelkeep import Model
from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.affine import Affine, Network
from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.layout import Layout, lay_out
from modelkeep.encrypt.ckks.network import read_network
from modelkeep.encrypt.ckks.parameters import SECURE_BITS, Parameters
from modelkeep.encrypt.ckks.plan import Plan, plan_inference
from modelkeep.encrypt.ckks.ranges import Ranges, measure_ranges
from modelkeep.encrypt.ckks.scheme import Floats, Scheme
from modelkeep.encrypt.polynomial import Polynomial

SHARED = Parameters(8192, (50, 36, 36, 36, 58), 36)


@pytest.fixture(scope="module")
def shared() -> tuple[ClientKeys, Arithmetic]:
    """Keys for all rotations that the small networks below can need."""
    scheme = Scheme(SHARED)
    keys = ClientKeys(scheme)
    return keys, Arithmetic(scheme, keys.evaluation({*range(8), *(2**k for k in range(12)), 12}))


def ask(layout: Layout, keys: ClientKeys, arithmetic: Arithmetic, x: Floats) -> Floats:
    """All slots of the answer to one flat input."""
    assert layout.first is not None
    inputs = [keys.encrypt(row) for row in layout.first.place(x, SHARED.slots)]
    (answer,) = layout.program(keys.scheme).run(arithmetic, inputs)
    return keys.decrypt(answer) / layout.gain


def ask_packed(layout: Layout, keys: ClientKeys, arithmetic: Arithmetic, x: Floats) -> Floats:
    """The logits of many flat inputs, (n, classes)."""
    answers = layout.program(keys.scheme).run(arithmetic, [keys.encrypt(column) for column in x.T])
    return np.stack([keys.decrypt(answer)[: len(x)] for answer in answers], axis=1) / layout.gain


def test_the_digits_in_both_packings(shared: tuple[ClientKeys, Arithmetic]) -> None:
    data = held_out_digits()
    x = data.x.reshape(len(data), -1).double().numpy()
    network = read_network(square_digits())
    exact = network.values(x)[-1]
    single = plan_inference(square_digits(), training_digits(), packing="single")
    packed = plan_inference(square_digits(), training_digits(), packing="packed")
    assert single.plan.parameters == packed.plan.parameters == SHARED
    for i in range(4):
        slots = ask(single.layout, *shared, x[i])
        # No slot holds a partial sum: each is a logit, or the zero of the padding.
        wanted = np.tile(np.pad(exact[i], (0, 6)), SHARED.slots // 16)
        assert np.abs(slots - wanted).max() < single.plan.predicted.error
    got = ask_packed(packed.layout, *shared, x)
    assert np.abs(got - exact).max() < packed.plan.predicted.error < 1e-5
    deviation = packed.plan.predicted.error / 5
    assert 0.05 * deviation < (got - exact).std() < deviation
    assert (got.argmax(axis=1) == exact.argmax(axis=1)).all()
    assert (got.argmax(axis=1) == square_digits().predict(data.x).numpy()).all()


@settings(max_examples=5, deadline=None)
@given(sizes=st.tuples(*(st.integers(1, 9) for _ in range(3))), sparse=st.booleans(), seed=st.integers(0, 999))
def test_drawn_networks(
    shared: tuple[ClientKeys, Arithmetic], sizes: tuple[int, int, int], sparse: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    maps = []
    for columns, rows in pairwise(sizes):
        pattern = random.random((rows, columns)) < (0.5 if sparse else 1.0)
        pattern[:, 0] = True
        maps.append(Affine("drawn", random.normal(size=pattern.shape) * pattern, random.normal(size=rows), pattern))
    network = Network(tuple(maps))
    x = random.uniform(-1, 1, size=(50, sizes[0]))
    ranges = Ranges(-1, 1, measure_ranges(network, x))
    exact = network.values(x)[-1]
    single = lay_out(network, ranges, SHARED, "single")
    assert single is not None
    assert single.first is not None
    slots = ask(single, *shared, x[0])
    period = single.later[-1].period
    wanted = np.tile(np.pad(exact[0], (0, period - len(exact[0]))), SHARED.slots // period)
    assert np.abs(slots - wanted).max() < single.error
    packed = lay_out(network, ranges, SHARED, "packed")
    assert packed is not None
    assert np.abs(ask_packed(packed, *shared, x) - exact).max() < packed.error


def test_a_plan_is_secure_says_no_weights_and_passes_through_json() -> None:
    plan = plan_inference(square_digits()).plan
    assert plan.parameters.bits <= SECURE_BITS[plan.parameters.degree]
    read = Plan.from_json(plan.to_json())
    assert read.fingerprint() == plan.fingerprint()
    assert "rotations" in str(plan)
    other = Model(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 32), Polynomial(), nn.Linear(32, 10)).eval(),
        input_shape=(1, 8, 8),
        classes=square_digits().classes,
        bounds=(0.0, 1.0),
    )
    drawn = plan_inference(other).plan
    assert drawn.inputs == plan.inputs
    assert drawn.fingerprint() != plan.fingerprint()  # bound to the model


def test_many_samples_are_packed_and_one_is_not() -> None:
    assert plan_inference(square_digits(), training_digits()).plan.packing == "single"
    assert plan_inference(square_digits(), training_digits(), samples=1000).plan.packing == "packed"


def deep(layers: int) -> nn.Sequential:
    return nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(4, 4), Polynomial())), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("module", "settings", "says"),
    [
        (deep(30), {}, "needs 61 levels.*Use fewer activations"),
        (deep(1), {"tolerance": 1e-12}, "--tolerance"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), {}, "Layer '1' is a ReLU"),
    ],
)
def test_what_is_refused(module: nn.Module, settings: dict[str, Any], says: str) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.5)
    model = Model(module.eval(), input_shape=(4,), classes=2, bounds=(0.0, 1.0))
    with pytest.raises(EncryptError, match=says):
        plan_inference(model, **settings)


def test_without_bounds_or_data_nothing_is_planned() -> None:
    with pytest.raises(EncryptError, match="--data"):
        plan_inference(Model(deep(1).eval(), input_shape=(4,), classes=2, bounds=None))
