"""Encrypted inference against plain inference and against TenSEAL's chained `mm`, on one core.

Floor: the same quadratic network in the clear. Peer: TenSEAL's encrypted vectors with `mm`, as its tutorials chain it.
64-32-10 on the digits, in both packings, on the whole test set; a CNN of two quadratics on MNIST. Server times are of
the computation alone; encryption, decryption and bytes are figures of their own. Errors are against float64.

`sharing_over_plain` is the same kind of network on three shares in one process, with the dealer's work, one sample as
`ckks_single_ms` has it; `sharing_batch_over_plain` is a batch of 450, where plain inference gains more than shares do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import tenseal
import torch
from torch import nn

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.evaluation import Program
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.network import read_network
from modelkeep.encrypt.ckks.plan import Prepared, plan_inference
from modelkeep.encrypt.ckks.scheme import Floats, Scheme, to_bytes
from modelkeep.encrypt.polynomial import Polynomial
from modelkeep.papers.saha2020.encrypted_costs import shares_in_processes, shares_inference
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets

Figures = dict[str, float | int | str]
CNN_SINGLE = 20  # test pictures that are asked one by one
SHARED_REPEATS, SHARED_PASSES, SHARED_BATCH = 60, 20, 450  # as in Saha2020's table 3.1 anew
CNN_TRAINING = 20_000  # pictures of MNIST that the CNN learns, in three epochs


class Served:
    """A model with its plan, its program and a client's keys, in one process."""

    def __init__(self, model: Model, data: Data, packing: Any) -> None:
        self.prepared: Prepared = plan_inference(model, data, packing=packing)
        self.plan = self.prepared.plan
        self.scheme = Scheme(self.plan.parameters)
        self.keys = ClientKeys(self.scheme)
        self.program: Program = self.prepared.layout.program(self.scheme)
        self.arithmetic = Arithmetic(self.scheme, self.keys.evaluation(self.plan.steps))

    def encrypt(self, x: Floats) -> list[Any]:
        """The ciphertexts of one input, or of as many as there are slots."""
        first = self.plan.first
        slots = first.place(x[0], self.scheme.slots) if first is not None else x.T
        return [self.keys.encrypt(row) for row in slots]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        return self.program.run(self.arithmetic, inputs)

    def decrypt(self, answers: Sequence[Any], samples: int) -> Floats:
        values = np.stack([self.keys.decrypt(each) for each in answers]) / self.plan.gain
        return values[:, :samples].T if self.plan.first is None else values[:, : len(self.plan.classes)]


def flat(data: Data) -> Floats:
    return data.x.reshape(len(data), -1).double().numpy()


def trained(module: nn.Module, data: Data, recipe: Recipe, seed: int) -> Model:
    model = Model(module.eval(), input_shape=data.input_shape, classes=data.classes, bounds=(0.0, 1.0))
    fit(model, data, cross_entropy, recipe, seed=seed)
    return model


def measure_single(served: Served, x: Floats, exact: Floats, name: str) -> Figures:
    """One by one: medians of each part, the largest error and the labels that differ."""
    took: list[tuple[float, float, float]] = []
    errors, differ = [], 0
    for row, wanted in zip(x, exact, strict=True):
        times = [perf_counter()]
        inputs = served.encrypt(row[None])
        times.append(perf_counter())
        answers = served.run(inputs)
        times.append(perf_counter())
        got = served.decrypt(answers, 1)[0]
        times.append(perf_counter())
        took.append((times[1] - times[0], times[2] - times[1], times[3] - times[2]))
        errors.append(float(np.abs(got - wanted).max()))
        differ += int(got.argmax() != wanted.argmax())
    encrypting, computing, decrypting = (median(part) for part in zip(*took, strict=True))
    first = served.plan.first
    assert first is not None
    upload = sum(len(served.keys.encrypt_bytes(row)) for row in first.place(x[0], served.scheme.slots))
    return {
        f"{name}_single_ms": 1e3 * computing,
        f"{name}_single_predicted_ms": 1e3 * served.plan.predicted.seconds,
        f"{name}_single_encrypt_ms": 1e3 * encrypting,
        f"{name}_single_decrypt_ms": 1e3 * decrypting,
        f"{name}_single_input_bytes": upload,
        f"{name}_single_answer_bytes": len(to_bytes(answers[0])),
        f"{name}_key_bytes": sum(map(len, served.keys.evaluation_bytes(served.plan.steps))),
        f"{name}_single_error": max(errors),
        f"{name}_single_predicted_error": served.plan.predicted.error,
        f"{name}_single_labels_differ": differ,
        f"{name}_single_samples": len(x),
    }


def measure_packed(served: Served, x: Floats, exact: Floats, name: str, repeats: int) -> Figures:
    """All in one batch; slots that no sample fills are computed all the same, so a full batch costs no more."""
    start = perf_counter()
    inputs = served.encrypt(x)
    encrypting = perf_counter() - start
    took = []
    for _ in range(repeats):
        start = perf_counter()
        answers = served.run(inputs)
        took.append(perf_counter() - start)
    start = perf_counter()
    got = served.decrypt(answers, len(x))
    decrypting = perf_counter() - start
    slots = served.scheme.slots
    return {
        f"{name}_packed_ms_per_sample": 1e3 * median(took) / slots,
        f"{name}_packed_predicted_ms_per_sample": 1e3 * served.plan.predicted.seconds / slots,
        f"{name}_packed_samples_per_batch": slots,
        f"{name}_packed_encrypt_ms_per_sample": 1e3 * encrypting / slots,
        f"{name}_packed_decrypt_ms_per_sample": 1e3 * decrypting / slots,
        f"{name}_packed_input_bytes_per_sample": served.plan.predicted.input_bytes / slots,
        f"{name}_packed_error": float(np.abs(got - exact).max()),
        f"{name}_packed_labels_differ": int((got.argmax(axis=1) != exact.argmax(axis=1)).sum()),
    }


def measure_tenseal(model: Model, served: Served, x: Floats, exact: Floats, repeats: int) -> Figures:
    """TenSEAL's chained `mm` with the same network and the prototype's parameters, in turns with ours."""
    first, second = read_network(model).maps
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[50, 36, 36, 36, 50])
    context.global_scale = 2.0**36
    context.generate_galois_keys()
    theirs = tenseal.ckks_vector(context, x[0].tolist())
    weights = [(affine.weight.T.tolist(), affine.bias.tolist()) for affine in (first, second)]

    def chained() -> Any:
        hidden = theirs.mm(weights[0][0]) + weights[0][1]
        return hidden.square().mm(weights[1][0]) + weights[1][1]

    inputs = served.encrypt(x[:1])
    plain = torch.from_numpy(x[:1]).float().reshape(1, *model.input_shape)
    rivals: dict[str, Callable[[], object]] = {
        "theirs": chained,
        "ours": partial(served.run, inputs),
        "plain": partial(model.logits, plain),
    }
    times = interleaved(rivals, repeats=repeats)
    return {
        "tenseal_mm_ms": 1e3 * times["theirs"],
        "tenseal_mm_over_ours": times["theirs"] / times["ours"],
        "tenseal_mm_error": float(np.abs(np.array(chained().decrypt()) - exact[0]).max()),
        "ckks_over_plain": times["ours"] / times["plain"],
    }


def measure_digits(seed: int, repeats: int) -> Figures:
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), Polynomial(), nn.Linear(32, 10))
    model = trained(module, train, Recipe(epochs=20, learning_rate=1e-2), seed)
    x, exact = flat(test), read_network(model).values(flat(test))[-1]
    single, packed = Served(model, train, "single"), Served(model, train, "packed")
    figures = measure_single(single, x, exact, "ckks")
    print(f"digits, one by one: {figures['ckks_single_ms']:.1f} ms", flush=True)
    figures |= measure_packed(packed, x, exact, "ckks", repeats)
    figures |= measure_tenseal(model, single, x, exact, repeats)
    figures["ckks_max_error"] = max(float(figures["ckks_single_error"]), float(figures["ckks_packed_error"]))
    figures["ckks_labels_differ"] = int(figures["ckks_single_labels_differ"]) + int(
        figures["ckks_packed_labels_differ"]
    )
    figures["ckks_accuracy"] = float((model.predict(test.x) == test.y).double().mean())
    return figures


def measure_cnn(seed: int) -> Figures:
    train, test = datasets.load("mnist", "train").first(CNN_TRAINING).load(), datasets.load("mnist", "test").load()
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 5, stride=2), Polynomial(), nn.Flatten(), nn.Linear(576, 32), Polynomial(), nn.Linear(32, 10)
    )
    model = trained(module, train, Recipe(epochs=3, batch_size=64, learning_rate=2e-3), seed)
    batch = test.first(4096)
    x, exact = flat(batch), read_network(model).values(flat(batch))[-1]
    single = Served(model, train, "single")
    figures = measure_single(single, x[:CNN_SINGLE], exact[:CNN_SINGLE], "cnn")
    figures["cnn_single_s"] = float(figures["cnn_single_ms"]) / 1e3
    print(f"MNIST, one by one: {figures['cnn_single_s']:.2f} s", flush=True)
    packed = Served(model, train, "packed")
    figures |= measure_packed(packed, x[: packed.scheme.slots], exact[: packed.scheme.slots], "cnn", 1)
    right = [(model.predict(rows) == labels).double().mean().item() for rows, labels in test.batches(1000)]
    figures["cnn_accuracy"] = float(np.mean(right))
    return figures


def measure_sharing(seed: int, repeats: int) -> Figures:
    figures: Figures = {}
    for name, samples in (("sharing", 1), ("sharing_batch", SHARED_BATCH)):
        cost = shares_inference(seed, repeats, samples)
        ours, plain = median(cost["seconds"]), median(cost["plain"])
        figures[f"{name}_over_plain"] = ours / plain
        figures[f"{name}_ms_per_sample"] = 1e3 * ours
        figures[f"{name}_bytes_per_sample"] = cost["bytes"]
        figures[f"{name}_error"] = cost["error"]
    apart = shares_in_processes(seed, SHARED_PASSES, SHARED_BATCH)
    figures["sharing_in_processes_over_plain"] = median(apart["seconds"]) / median(apart["plain"])
    return figures


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    figures = measure_digits(options.seed, options.repeats) | measure_sharing(options.seed, SHARED_REPEATS)
    figures |= measure_cnn(options.seed)
    report(dict(sorted(figures.items())), options.json)


if __name__ == "__main__":
    main()
