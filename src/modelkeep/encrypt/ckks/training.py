"""Training on encrypted data under CKKS: features, labels and weights are ciphertexts; the server sees none of them.

Each feature is one ciphertext with an example per slot, each weight one ciphertext with the same number in every slot.
A step of full-batch gradient descent sums over the slots by rotations, so it is one pass over all examples: an epoch.
The one loop takes tensors; here the parameters are ciphertexts, so the step stands here.

SEAL has no bootstrapping. When the levels are used up, the client decrypts the weights and sends fresh encryptions of
them: a round trip, which is counted. The client, who owns the data and the key, learns the weights; the server gets
encryptions only. Decrypted weights must not go to the server as they are: a CKKS decryption tells the noise, and the
noise tells the secret key (Li2021). Flood them with noise first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, TrainingError, bad_parameter
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.parameters import choose
from modelkeep.encrypt.ckks.scheme import Floats, Scheme, to_bytes

SIGMOID = (0.5, 0.15012, -0.001593)
"""The coefficients of 1, z and z³ of the cubic of least squares to the sigmoid on [-8, 8]. Beyond, it bends away."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CiphertextTraining(Result, kind="ciphertext-training"):
    """A training on ciphertexts, beside the same polynomial training in the clear, step by step.

    `errors` are the largest differences of any weight after each step. `seconds` are the server's per step, on all
    examples: an epoch.
    """

    kind_of_network: str
    examples: int
    errors: tuple[float, ...]
    seconds: tuple[float, ...]
    plain_seconds: float
    refreshes: int
    refresh_bytes: int
    data_bytes: int
    accuracy: Estimate
    plain_accuracy: Estimate
    weights: tuple[float, ...] = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        mean = float(np.mean(self.seconds))
        return [
            ("network", f"{self.kind_of_network}, {self.examples} examples"),
            ("an epoch (one step on all examples)", f"{mean:.3g} s, {mean / self.plain_seconds:,.0f} × plain numpy"),
            ("refreshes by the client", f"{self.refreshes}, {self.refresh_bytes / 1e6:.1f} MB in all"),
            ("encrypted data", f"{self.data_bytes / 1e6:.1f} MB"),
            ("largest error of a weight, per step", ", ".join(f"{each:.1e}" for each in self.errors)),
            ("accuracy", f"{self.accuracy}; in the clear {self.plain_accuracy}"),
        ]


def train_on_ciphertexts(
    data: Data,
    *,
    held_out: Data,
    hidden: int = 0,
    steps: int = 4,
    steps_per_refresh: int = 1,
    learning_rate: float | None = None,
    seed: int = 0,
) -> CiphertextTraining:
    """Train on two classes without seeing the data: logistic regression, or one hidden layer of squares.

    Args:
        data: Two classes; each feature is scaled to -1 … 1 by its range here.
        held_out: What both accuracies are measured on.
        hidden: The units of the hidden layer, with the activation z² and the squared error of ±1; 0: logistic
            regression with a cubic for the sigmoid.
        steps: Steps of full-batch gradient descent.
        steps_per_refresh: How many fit into the levels between two refreshes: more levels are slower.
        learning_rate: Of both trainings; by default 2 for logistic regression and 0.03 for a hidden layer.
        seed: For the first weights of the hidden layer.
    """
    if len(data.classes) != 2:
        raise InputError(f"Training on ciphertexts knows two classes. '{data.name}' has {len(data.classes)}.")
    if steps < 1 or steps_per_refresh < 1:
        raise bad_parameter("train_on_ciphertexts", "steps", "at least 1, as steps_per_refresh", steps)
    network = _Hidden(hidden, seed) if hidden else _Logistic()
    rate = network.rate if learning_rate is None else learning_rate
    with measured(seed, None, data.fingerprint()) as provenance:
        scale = _scaling(data)
        x, y = scale(data), data.y.double().numpy()
        weights = network.first_weights(x.shape[1])
        scheme = Scheme(choose(network.depth * steps_per_refresh, scale_bits=40, head_bits=20, slots=len(x)))
        client = ClientKeys(scheme)
        server = _Server(scheme, client, x, network.target(y), rate)
        plain, held, refreshes = weights, server.replicate(weights), 0
        errors, seconds, plain_seconds = [], [], []
        with progress.task("train on ciphertexts", total=steps) as task:
            for number in range(steps):
                if number and number % steps_per_refresh == 0:
                    held = server.replicate([client.decrypt(each)[0] for each in held])
                    refreshes += 1
                began = perf_counter()
                held = network.encrypted_step(server, held)
                seconds.append(perf_counter() - began)
                began = perf_counter()
                plain = network.plain_step(x, network.target(y), plain, rate)
                plain_seconds.append(perf_counter() - began)
                found = np.array([client.decrypt(each)[0] for each in held])
                errors.append(float(np.abs(found - plain).max()))
                if not errors[-1] < 1:  # also where it is not a number
                    raise TrainingError(
                        f"After step {number + 1} the encrypted weights are wrong by {errors[-1]:.2g}: the values grew "
                        "beyond what the ciphertexts hold. Lower the learning rate."
                    )
                task.advance()
        theirs, labels = scale(held_out), held_out.y.numpy()
        return CiphertextTraining(
            provenance=provenance(),
            kind_of_network=network.describe(x.shape[1] - 1),
            examples=len(x),
            errors=tuple(errors),
            seconds=tuple(seconds),
            plain_seconds=float(np.mean(plain_seconds)),
            refreshes=refreshes,
            # The weights go to the client at the last level and come back fresh.
            refresh_bytes=refreshes * len(held) * (len(to_bytes(held[0])) + server.fresh_bytes),
            data_bytes=server.fresh_bytes * (x.shape[1] + 1),
            accuracy=_share(network.scores(theirs, found), labels),
            plain_accuracy=_share(network.scores(theirs, plain), labels),
            weights=tuple(found.tolist()),
        )


class _Server:
    """Holds ciphertexts and evaluation keys; the client only encrypts what goes in."""

    def __init__(self, scheme: Scheme, client: ClientKeys, x: Floats, target: Floats, rate: float) -> None:
        self.scheme, self._client = scheme, client
        steps = [1 << i for i in range(scheme.slots.bit_length() - 1)]
        self.arithmetic, self._steps = Arithmetic(scheme, client.evaluation(steps)), steps
        self.features = [client.encrypt(column) for column in x.T]
        self.target = client.encrypt(target)
        self.fresh_bytes = len(client.encrypt_bytes(x[:, 0]))
        # The factor of the update is put into the features once: on the way of the gradient it would cost a level.
        self.rated = [self.scaled(each, rate / len(x)) for each in self.features]

    def replicate(self, weights: Sequence[float] | Floats) -> list[Any]:
        """Fresh encryptions of the weights, each in every slot. The client does this."""
        return [self._client.encrypt([float(each)] * self.scheme.slots) for each in weights]

    def scaled(self, ciphertext: Any, factor: float) -> Any:
        """The product with a number."""
        encoded = self.arithmetic.encode_factor(factor, ciphertext)
        return self.arithmetic.rescale(self.arithmetic.multiply_plain(ciphertext, encoded))

    def times(self, one: Any, other: Any) -> Any:
        """The product of two ciphertexts, at the usual scale."""
        product = self.arithmetic.multiply(one, other)
        # A prime differs from the scale by one part in 10^6 or so; calling the scale equal is an error of that size.
        product.scale = self.scheme.parameters.scale
        return product

    def dot(self, ones: Sequence[Any], others: Sequence[Any]) -> Any:
        """The sum of products."""
        total, *rest = (self.times(one, other) for one, other in zip(ones, others, strict=True))
        for each in rest:
            total = self.arithmetic.add(total, each)
        return total

    def sum_slots(self, ciphertext: Any) -> Any:
        """The sum over all slots, in every slot. Slots without an example hold 0, for their features do."""
        return self.arithmetic.sum_rotations(ciphertext, self._steps)


@dataclass(frozen=True)
class _Logistic:
    """Logistic regression with a cubic for the sigmoid: w ← w - η/n Σ (σ(w·x) - y) x."""

    depth: int = 4
    rate: float = 2.0  # chosen on a fifth of breast cancer's training records, among 0.1 … 2, for eight steps

    def describe(self, features: int) -> str:
        return f"logistic regression on {features} features"

    def first_weights(self, width: int) -> Floats:
        return np.zeros(width)

    def target(self, y: Floats) -> Floats:
        return SIGMOID[0] - y

    def scores(self, x: Floats, weights: Floats) -> Floats:
        return x @ weights

    def plain_step(self, x: Floats, target: Floats, weights: Floats, rate: float) -> Floats:
        z = x @ weights
        error = SIGMOID[1] * z + SIGMOID[2] * z**3 + target
        return weights - rate / len(x) * (x.T @ error)

    def encrypted_step(self, server: _Server, weights: list[Any]) -> list[Any]:
        a = server.arithmetic
        z = server.dot(weights, server.features)
        cube = server.times(server.times(z, z), server.scaled(z, SIGMOID[2]))
        error = a.add(a.add(cube, server.scaled(z, SIGMOID[1])), server.target)
        changes = [server.sum_slots(server.times(error, each)) for each in server.rated]
        return [a.subtract(weight, change) for weight, change in zip(weights, changes, strict=True)]


@dataclass(frozen=True)
class _Hidden:
    """Σ v_k (w_k·x)² with the squared error of ±1; the weights are w row by row, then v."""

    units: int
    seed: int
    depth: int = 6
    rate: float = 0.03  # chosen likewise, among 0.01 … 0.2; the squares diverge at 0.1

    def describe(self, features: int) -> str:
        return f"{features}-{self.units}-1 with squares"

    def first_weights(self, width: int) -> Floats:
        drawn = np.random.default_rng(self.seed).normal(0, width**-0.5, self.units * width)
        return np.concatenate([drawn, np.resize([1.0, -1.0], self.units)])

    def target(self, y: Floats) -> Floats:
        return 1 - 2 * y  # minus the wanted ±1

    def scores(self, x: Floats, weights: Floats) -> Floats:
        first, last = self._parts(weights)
        return np.square(x @ first.T) @ last

    def plain_step(self, x: Floats, target: Floats, weights: Floats, rate: float) -> Floats:
        first, last = self._parts(weights)
        z = x @ first.T
        error = np.square(z) @ last + target
        into_first = 2 * (error[:, None] * z * last).T @ x
        return weights - rate / len(x) * np.concatenate([into_first.ravel(), np.square(z).T @ error])

    def encrypted_step(self, server: _Server, weights: list[Any]) -> list[Any]:
        a, width = server.arithmetic, len(server.features)
        first = [weights[k * width : (k + 1) * width] for k in range(self.units)]
        last = weights[self.units * width :]
        z = [server.dot(row, server.features) for row in first]
        squares = [server.times(each, each) for each in z]
        error = a.add(server.dot(last, squares), server.target)
        changes = []
        for unit in range(self.units):
            passed = server.times(server.times(error, last[unit]), a.add(z[unit], z[unit]))
            changes += [server.sum_slots(server.times(passed, each)) for each in server.rated]
        # The last feature is 1 for every example: its rated form is η/n.
        changes += [server.sum_slots(server.times(server.times(error, each), server.rated[-1])) for each in squares]
        return [a.subtract(weight, change) for weight, change in zip(weights, changes, strict=True)]

    def _parts(self, weights: Floats) -> tuple[Floats, Floats]:
        return weights[: -self.units].reshape(self.units, -1), weights[-self.units :]


def _scaling(data: Data) -> Any:
    """From data to features in -1 … 1 and a last one that is 1, `(n, features + 1)`."""
    flat = data.load().x.flatten(1).double()
    low, width = flat.amin(0), (flat.amax(0) - flat.amin(0)).clamp(min=1e-12)

    def scale(given: Data) -> Floats:
        x = ((given.load().x.flatten(1).double() - low) / width * 2 - 1).clamp(-1, 1)
        return torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], dim=1).numpy()

    return scale


def _share(scores: Floats, labels: NDArray[Any]) -> Estimate:
    return Estimate.rate(int(((scores > 0) == (labels == 1)).sum()), len(labels))
