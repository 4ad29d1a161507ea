"""Integer networks, TFHE, functional encryption and CKKS training, each against the same computation in the clear.

The floor is the plain computation. TFHE is left out where `.tfhe` is missing (`make tfhe`). `--json` prints one line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter

import torch
from torch import nn

from modelkeep import Data, Model, datasets
from modelkeep.encrypt import (
    Authority,
    Bits,
    FirstLayerGradients,
    FirstLayerServer,
    FixedPoint,
    quantise,
    run_encrypted,
    train_integers,
    train_on_ciphertexts,
)
from modelkeep.encrypt.functional.training import DataOwner, EncryptedProducts, PlainProducts, Products, without_inputs
from modelkeep.encrypt.integers.network import IntegerNetwork
from modelkeep.encrypt.integers.tfhe import NoTFHE
from modelkeep.training import SGD, Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import dense

LEVELS, BATCH, UNITS = 15, 32, 8


def main(seed: int = 0) -> dict[str, float]:
    """All figures."""
    train, test = datasets.load("digits"), datasets.load("digits", "test")
    torch.manual_seed(seed)
    model = Model(dense((1, 8, 8), 10, hidden=[32]), input_shape=(1, 8, 8), classes=train.classes)
    fit(model, train, cross_entropy, Recipe(epochs=30, batch_size=64, learning_rate=3e-3), seed=seed)
    figures: dict[str, float] = {}
    networks: dict[int, IntegerNetwork] = {}
    for bits in (2, 3, 4):
        found = quantise(model, train, held_out=test, bits=Bits(bits, bits, bits), seed=seed)
        networks[bits] = found.network
        figures["accuracy_float"] = found.float_accuracy.value
        figures[f"accuracy_{bits}_bits"] = found.integer_accuracy.value
        figures[f"modulus_{bits}_bits"] = found.network.ring.bits
    for rounding in ("stochastic", "nearest"):
        learned = train_integers(train, held_out=test, point=FixedPoint(rounding=rounding), seed=seed)
        figures[f"accuracy_learned_in_integers_{rounding}"] = learned.integer_accuracy.value
        figures["accuracy_learned_in_floats"] = learned.float_accuracy.value
        figures[f"integer_training_over_float_{rounding}"] = learned.seconds / learned.float_seconds
    figures |= _tfhe(networks[2], test) | _functional_inference(networks[3], test) | _functional_training(seed)
    return figures | _ckks(seed)


def _tfhe(network: IntegerNetwork, test: Data) -> dict[str, float]:
    rows = network.encoder(test.x[:1])
    try:
        found = run_encrypted(network, rows)
    except NoTFHE:
        return {}
    plain = _time(lambda: network.scores(rows))
    return {
        "tfhe_s": found.seconds["evaluate"],
        "tfhe_keys_s": found.seconds["keys"],
        "tfhe_over_plain": found.seconds["evaluate"] / plain,
        "tfhe_exact": float(found.exact),
    }


def _functional_inference(network: IntegerNetwork, test: Data) -> dict[str, float]:
    rows, authority = network.encoder(test.x[:2]), Authority(64)
    server, public = FirstLayerServer(network, authority), authority.public_key()
    public.encrypt(rows[0].tolist())  # makes its tables
    began = perf_counter()
    sealed = [public.encrypt(row) for row in rows.tolist()]
    encrypted = (perf_counter() - began) / len(rows)
    began = perf_counter()
    scores = server.scores(sealed)
    answered = (perf_counter() - began) / len(rows)
    return {
        "functional_encrypt_s": encrypted,
        "functional_answer_s": answered,
        "functional_over_plain": answered / _time(lambda: network.scores(rows[:1])),
        "functional_exact": float(torch.equal(scores, network.scores(rows))),
        "functional_rank_of_64": authority.rank,
    }


def _functional_training(seed: int) -> dict[str, float]:
    data = datasets.load("breast-cancer")
    low, high = data.x.amin(0), data.x.amax(0)
    x = ((data.x - low) / (high - low) * LEVELS).round().long()
    examples, batches = Authority(30, reveal_inputs=True), Authority(BATCH, reveal_inputs=True)
    owner = DataOwner(x, LEVELS, examples, batches)
    owner.encrypt_rows(torch.arange(1))  # makes the tables of the keys, once
    owner.encrypt_columns(torch.arange(1))
    taken, weights = {}, {}
    sources: dict[str, Products] = {
        "warm up": PlainProducts(x),
        "plain": PlainProducts(x),
        "encrypted": EncryptedProducts(owner, examples, batches),
    }
    for name, products in sources.items():
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(30, UNITS), nn.ReLU(), nn.Linear(UNITS, 2))
        model = Model(module, input_shape=(30,), classes=data.classes, bounds=None)
        recipe = Recipe(steps=1, batch_size=BATCH, optimizer=SGD(), learning_rate=0.5)
        began = perf_counter()
        fit(model, without_inputs(data), FirstLayerGradients(products, LEVELS), recipe, seed=seed)
        taken[name] = perf_counter() - began
        weights[name] = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    return {
        "functional_step_s": taken["encrypted"],
        "functional_epoch_s": taken["encrypted"] * -(-len(x) // BATCH),
        "functional_step_over_plain": taken["encrypted"] / taken["plain"],
        "functional_training_exact": float(torch.equal(weights["plain"], weights["encrypted"])),
    }


def _ckks(seed: int) -> dict[str, float]:
    data, test = datasets.load("breast-cancer"), datasets.load("breast-cancer", "test")
    figures = {}
    for name, hidden in (("logistic", 0), ("hidden", 2)):
        found = train_on_ciphertexts(data, held_out=test, hidden=hidden, steps=3, seed=seed)
        figures[f"ckks_{name}_epoch_s"] = sum(found.seconds) / len(found.seconds)
        figures[f"ckks_{name}_over_plain"] = figures[f"ckks_{name}_epoch_s"] / found.plain_seconds
        figures[f"ckks_{name}_error"] = max(found.errors)
    return figures


def _time(run: Callable[[], object], repeats: int = 100) -> float:
    began = perf_counter()
    for _ in range(repeats):
        run()
    return (perf_counter() - began) / repeats


if __name__ == "__main__":
    measured = main()
    if "--json" in sys.argv:
        print(json.dumps(measured))
    else:
        for label, value in measured.items():
            print(f"{label:45} {value:.4g}")
