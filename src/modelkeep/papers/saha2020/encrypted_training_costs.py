"""What training costs where data, weights or both are hidden: one function per way, each beside plain."""

from __future__ import annotations

import tempfile
import threading
from contextlib import closing
from pathlib import Path
from socket import socket
from time import process_time

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.papers.saha2020.encrypted_costs import (
    CLASSES,
    HIDDEN,
    INPUTS,
    Cost,
    count_right,
    fresh_digits,
    peak_memory,
    seconds_of,
)
from modelkeep.training import SGD, Recipe, fit
from modelkeep.zoo import datasets


def plain_training(seed: int, repeats: int, steps: int) -> Cost:
    """A step of gradient descent in the clear."""
    model, train, test = _untrained(seed)
    seconds = _plain_steps(model, train, steps * repeats)
    return {
        "seconds": seconds,
        "plain": seconds,
        "bytes": 0,
        "memory": peak_memory(),
        "right": count_right(model, test),
    }


def shares_training(seed: int, repeats: int, steps: int, in_processes: bool) -> Cost:
    """Steps of 32 samples on shares, against the same loss in the clear; in processes, the time on the wall."""
    from modelkeep.encrypt.shares.training import train_on_shares

    model, train, test = _untrained(seed)
    plain = _plain_steps(_untrained(seed)[0], train, 200)
    start = process_time()
    found = train_on_shares(model, train, steps=steps, in_processes=in_processes)
    taken = found.run_seconds if in_processes else process_time() - start
    payload = found.opened + found.revealed + found.dealt
    return {
        "seconds": [taken / steps],
        "plain": plain,
        "bytes": (found.sent or payload) / steps,
        "memory": peak_memory(),
        "right": count_right(model, test),
    }


def functional_training(seed: int, repeats: int, steps: int) -> Cost:
    """The first layer on inner products of encrypted inputs (2048-bit group), the rest in the clear; per step."""
    from modelkeep.encrypt.functional.authority import Authority
    from modelkeep.encrypt.functional.training import (
        DataOwner,
        EncryptedProducts,
        FirstLayerGradients,
        without_inputs,
    )

    train = datasets.load("digits", "train")
    levels, batch = 15, 8
    x = (train.x.flatten(1) * levels).round().long()
    examples, batches = Authority(INPUTS, reveal_inputs=True), Authority(batch, reveal_inputs=True)
    products = EncryptedProducts(DataOwner(x, levels, examples, batches), examples, batches)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    rows = without_inputs(Data(train.x.flatten(1), train.y, train.classes))
    model = Model(module, input_shape=(INPUTS,), classes=train.classes, bounds=None)
    recipe = Recipe(steps=steps, batch_size=batch, optimizer=SGD(), learning_rate=0.5)
    taken = seconds_of(lambda: fit(model, rows, FirstLayerGradients(products, levels), recipe, seed=seed))
    plain = _plain_steps(_untrained(seed)[0], train, 200, batch)
    return {"seconds": [taken / steps], "plain": plain, "memory": peak_memory()}


def ckks_training(seed: int, repeats: int, steps: int) -> Cost:
    """Logistic regression on the breast-cancer records under CKKS, against the same polynomial in the clear; a step."""
    from modelkeep.encrypt.ckks.training import train_on_ciphertexts

    train, test = datasets.load("breast-cancer", "train"), datasets.load("breast-cancer", "test")
    ran = train_on_ciphertexts(train, held_out=test, steps=steps, seed=seed)
    right = round(ran.accuracy.value * ran.accuracy.n)
    return {
        "seconds": list(ran.seconds),
        "plain": [ran.plain_seconds],
        "bytes": (ran.data_bytes + ran.refresh_bytes) / steps,
        "memory": peak_memory(),
        "right": [right, ran.accuracy.n],
        "error": max(ran.errors),
    }


def governed_training(seed: int, repeats: int, steps: int) -> Cost:
    """A step of 32 samples on a network that two parties hold, over TLS, with consent and ledgers; per step."""
    from modelkeep.govern import Folder, Identity, Leader, Material, Party, draft, serve, split
    from modelkeep.govern.session.runs import training_passes

    model, train, _ = _untrained(seed)
    plain = _plain_steps(_untrained(seed)[0], train, 200)
    with tempfile.TemporaryDirectory() as root, closing(socket()) as one, closing(socket()) as other:
        names, ports = ("alice", "bob"), []
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
            probe.close()
        identities = {name: Identity.at(Path(root) / name, name) for name in names}
        agreement = draft(
            "table-3-1", model, parties=[each.public for each in identities.values()],
            addresses={name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)},
            cuts=["2"], holders=names, data=Material.inputs("alice", train), labels=Material.labels("bob", train),
            recipe=Recipe(steps=10**6, batch_size=32, optimizer=SGD(), learning_rate=0.01), seed=seed,
            checkpoint_every=10**6,
        )  # fmt: skip
        for identity in identities.values():
            agreement = agreement.sign(identity)
        folders = {name: Folder(Path(root) / name) for name in names}
        for folder in folders.values():
            agreement.write(folder.agreement)
        split(model, agreement, folders)
        stop = threading.Event()
        with Party(folders["bob"], data=[train]) as bob, Party(folders["alice"], data=[train]) as alice:
            thread = threading.Thread(target=serve, args=(bob, stop))
            thread.start()
            try:
                leader = Leader(alice)
                leader.meet()
                make = training_passes(alice)
                seconds = [seconds_of(lambda: leader.run("train", make)) for _ in range(steps)]
                crossed = sum(alice.links.bytes) / steps
            finally:
                stop.set()
                thread.join()
    return {"seconds": seconds, "plain": plain, "bytes": crossed, "memory": peak_memory()}


def _untrained(seed: int) -> tuple[Model, Data, Data]:
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    return fresh_digits(train, seed), train, test


def _plain_steps(model: Model, data: Data, steps: int, batch: int = 32) -> list[float]:
    """Seconds of steps by hand, the fastest that plain can be: a loop would add its own time."""
    y = nn.functional.one_hot(data.y, CLASSES).float()
    module, times = model.module, []
    optimizer = torch.optim.SGD([p for n, p in module.named_parameters() if not n.startswith("2.")], lr=2.0**-3)
    for number in range(steps):
        at = torch.arange(number * batch, (number + 1) * batch) % len(data)

        def step(at: torch.Tensor = at) -> None:
            optimizer.zero_grad()
            loss = 0.5 * ((module(data.x[at]) - y[at]) ** 2).sum() / batch
            torch.autograd.backward(loss)
            optimizer.step()

        times.append(seconds_of(step))
    return times
