"""What inference costs where data, weights or both are hidden: one function per way, each beside plain."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.errors import EncryptError
from modelkeep.core.model import Model
from modelkeep.encrypt.polynomial import Polynomial
from modelkeep.encrypt.shares.programs import Inference, InferencePlan, Secrets
from modelkeep.encrypt.shares.reading import read_layers
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets

Cost = dict[str, Any]
"""`seconds` and `plain` are lists, of a sample or a step, taken in turns. Where they were measured: `bytes` of a sample
or a step, `memory` (peak of the largest process), `right` (of how many), `error`. `missing` says why not."""

Work = Callable[[], object]
WARMING = 3  # after a second under CKKS the first plain pass takes ten times as long as the third
INPUTS, HIDDEN, CLASSES = 64, 32, 10
PRODUCTS = INPUTS * HIDDEN + HIDDEN + HIDDEN * CLASSES
"""Multiplications of one sample: two matrices and a square."""


def build_network() -> nn.Module:
    """64-32-10 with a square."""
    return nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, HIDDEN), Polynomial(), nn.Linear(HIDDEN, CLASSES))


def fresh_digits(data: Data, seed: int) -> Model:
    """A network with new weights."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return Model.load(f"{__name__}:build_network", like=data)


def trained_digits(seed: int) -> tuple[Model, Data, Data]:
    """The network after ten epochs on the digits, what it was trained on and what it was not."""
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    model = fresh_digits(train, seed)
    fit(model, train, cross_entropy, Recipe(epochs=10, learning_rate=1e-2), seed=seed)
    return model, train, test


def plain_inference(seed: int, repeats: int, samples: int) -> Cost:
    """One sample at a time, in the clear."""
    model, _, test = trained_digits(seed)
    ask = _plain(model, test.x[:1])
    seconds, plain = take_turns(ask, ask, repeats)
    right = count_right(model, test)
    return {"seconds": seconds, "plain": plain, "bytes": 0, "memory": peak_memory(), "right": right, "error": 0}


def ckks(seed: int, repeats: int, samples: int, packing: str) -> Cost:
    """The server's part on one ciphertext of one sample, or on 64 ciphertexts of 4,096; per sample."""
    from modelkeep.encrypt.ckks.arithmetic import Arithmetic
    from modelkeep.encrypt.ckks.keys import ClientKeys
    from modelkeep.encrypt.ckks.plan import plan_inference
    from modelkeep.encrypt.ckks.scheme import Scheme

    model, train, test = trained_digits(seed)
    single = packing == "single"
    prepared = plan_inference(model, train, packing="single" if single else "packed")
    plan, layout = prepared.plan, prepared.layout
    scheme = Scheme(plan.parameters)
    keys = ClientKeys(scheme)
    arithmetic, program = Arithmetic(scheme, keys.evaluation(plan.steps)), layout.program(scheme)
    x = test.x.flatten(1).double().numpy()
    exact = model.logits(test.x).detach().double().numpy()
    slots = layout.first.place(x[0], scheme.slots) if layout.first is not None else x.T
    inputs = [keys.encrypt(row) for row in slots]
    held = 1 if single else scheme.slots
    seconds, plain = take_turns(lambda: program.run(arithmetic, inputs), _plain(model, test.x[:1]), repeats)
    answers = np.stack([keys.decrypt(each) for each in program.run(arithmetic, inputs)]) / layout.gain
    found = answers[:1, :CLASSES] if single else answers[:, : len(x)].T
    crossing = plan.predicted.input_bytes + plan.predicted.answer_bytes
    return {
        "seconds": [each / held for each in seconds],
        "plain": plain,
        "bytes": crossing / held,
        "memory": peak_memory(),
        "right": _count(found, test),
        "error": float(np.abs(found - exact[: len(found)]).max()),
    }


def tfhe(seed: int, repeats: int, samples: int) -> Cost:
    """An integer network of 1-bit inputs and 2-bit weights, its tables as bootstraps; seconds per sample."""
    from modelkeep.encrypt.integers.quantised import quantise
    from modelkeep.encrypt.integers.straight_through import Bits
    from modelkeep.encrypt.integers.tfhe import NoTFHE, find_environment, run_encrypted

    try:
        find_environment()
    except NoTFHE as missing:
        return {"missing": str(missing)}
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    model = Model(module, input_shape=train.input_shape, classes=train.classes)
    fit(model, train, cross_entropy, Recipe(epochs=10, learning_rate=1e-2), seed=seed)
    network = quantise(model, train, held_out=test, bits=Bits(inputs=1, weights=2, activations=2), seed=seed).network
    try:
        ran = run_encrypted(network, network.encoder(test.x[:2].flatten(1)), seed=seed)
    except EncryptError as failed:
        return {"missing": str(failed)}
    plain = take_turns(_plain(model, test.x[:1]), _plain(model, test.x[:1]), repeats)[1]
    right = int((network.predict(test.x.flatten(1)) == test.y).sum())
    return {
        "seconds": [ran.seconds["evaluate"] / ran.rows_count],
        "plain": plain,
        "bytes": ran.input_bytes / ran.rows_count,
        "right": [right, len(test)],
        "error": 0.0 if ran.exact else float("nan"),
    }


def shares_inference(seed: int, repeats: int, samples: int) -> Cost:
    """A batch on shares, all roles in this process, against the same batch in the clear; per sample."""
    from modelkeep.encrypt.shares.keys import Keys
    from modelkeep.encrypt.shares.local import Local

    model, x, y, program = _shared_digits(seed, 1, samples)
    here = Local(ShareRing(), Keys.draw())
    here.run(program.load)
    before = here.traffic.bytes
    logits = here.run(partial(program.ask, number=0))
    crossed = here.traffic.bytes - before
    assert logits is not None
    seconds, plain = take_turns(lambda: here.run(partial(program.ask, number=0)), _plain(model, x), repeats)
    return {
        "seconds": [each / samples for each in seconds],
        "plain": [each / samples for each in plain],
        "bytes": crossed / samples,
        "memory": peak_memory(),
        "right": [int((logits.argmax(dim=1) == y).sum()), samples],
        "error": float((logits - model.logits(x).detach()).abs().max()),
    }


def shares_in_processes(seed: int, repeats: int, samples: int) -> Cost:
    """The same in four processes over TLS: the time on the wall from their meeting to the last answer; per sample."""
    from modelkeep.encrypt.shares.execution import run_plan

    model, x, y, program = _shared_digits(seed, repeats, samples)
    ran = run_plan(program.plan, program.secrets, ShareRing(), in_processes=True)
    plain = take_turns(_plain(model, x), _plain(model, x), repeats)[1]
    logits = ran.found[-1]
    return {
        "seconds": [ran.seconds / repeats / samples],
        "plain": [each / samples for each in plain],
        "bytes": (ran.sent or 0) / repeats / samples,
        "memory": max(ran.memory.values()),
        "right": [int((logits.argmax(dim=1) == y).sum()), samples],
        "error": float((logits - model.logits(x).detach()).abs().max()),
    }


def _shared_digits(seed: int, batches: int, samples: int) -> tuple[Model, torch.Tensor, torch.Tensor, Inference]:
    model, _, test = trained_digits(seed)
    layers, weights = read_layers(model.module)
    at = torch.arange(samples) % len(test)
    x, y = test.x[at], test.y[at]
    plan = InferencePlan(tuple(layers), (samples,) * batches)
    return model, x, y, Inference(plan, Secrets(weights, x.flatten(1).double().repeat(batches, 1)))


def take_turns(ours: Work, plain: Work, repeats: int) -> tuple[list[float], list[float]]:
    """The seconds of both, measured in turns so that a busy machine slows both. Plain gets warm caches."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        times[0].append(seconds_of(ours))
        for _ in range(WARMING):
            plain()
        times[1].append(seconds_of(plain))
    return times


def _plain(model: Model, x: torch.Tensor) -> Callable[[], object]:
    module = model.module

    def ask() -> object:
        with torch.no_grad():
            return module(x)

    ask()
    return ask


def seconds_of(work: Work) -> float:
    """The time of this process on the processor. On an idle machine with one thread that is the time on the wall; on a
    busy one it does not grow with what the others do."""
    start = process_time()
    work()
    return process_time() - start


def count_right(model: Model, data: Data) -> list[int]:
    """How many labels are right, of how many."""
    return [int((model.predict(data.x) == data.y).sum()), len(data)]


def _count(logits: np.ndarray[Any, Any], data: Data) -> list[int]:
    labels = torch.from_numpy(logits.argmax(axis=1))
    return [int((labels == data.y[: len(labels)]).sum()), len(labels)]


def peak_memory() -> int:
    """The peak of this process since `forget_peak`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def forget_peak() -> None:
    """Begin a new peak: a worker process runs several trials."""
    Path("/proc/self/clear_refs").write_text("5")
