"""Plan: how a network is computed on encrypted inputs, with the time, the bytes and the error that are expected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256

import numpy as np

from modelkeep.core.data import Data
from modelkeep.core.errors import EncryptError
from modelkeep.core.model import Model
from modelkeep.core.results import Result, measured
from modelkeep.encrypt.ckks.affine import Network
from modelkeep.encrypt.ckks.calibration import Calibration, calibrate
from modelkeep.encrypt.ckks.layout import Layout, Packing, lay_out
from modelkeep.encrypt.ckks.network import read_network
from modelkeep.encrypt.ckks.packing import Gather
from modelkeep.encrypt.ckks.parameters import LARGEST_PRIME, SECURE_BITS, Parameters
from modelkeep.encrypt.ckks.ranges import Ranges, find_ranges

DEGREES = (4096, 8192, 16384, 32768)
HEADS = (14, 10, 7)  # bits above the scale for the answer, the most comfortable first
SPECIAL = 8  # bits of the last prime above the largest: the errors of keys are divided by it (see `Noise`)
SCALES = (22, 40)  # fewest and most bits of the scale; beyond 40 nothing is gained over double precision's encoding


@dataclass(frozen=True)
class Layer:
    """One affine map of the plan: its layers, its level, its rotations and products, its seconds."""

    name: str
    shape: tuple[int, int]
    level: int
    rotations: int
    products: int
    seconds: float

    def describe(self) -> str:
        """One line for a person."""
        return (
            f"{self.shape[1]} → {self.shape[0]} at level {self.level}: {self.products:,} products, "
            f"{self.rotations} rotations, {1e3 * self.seconds:,.1f} ms"
        )


@dataclass(frozen=True)
class Prediction:
    """What a request is expected to cost: one sample, or one batch of `samples` in one go."""

    samples: int
    seconds: float
    input_bytes: int
    answer_bytes: int
    key_bytes: int
    error: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan(Result, kind="encryption-plan"):
    """What client and server agree on. It tells the network's structure and nothing of its weights."""

    model: str
    parameters: Parameters
    packing: Packing
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    period: int
    taps: int
    steps: tuple[int, ...]
    gain: float
    low: float
    high: float
    layers: tuple[Layer, ...]
    predicted: Prediction

    def rows(self) -> list[tuple[str, str]]:
        """The choices, a line per layer, and the predictions."""
        p, made = self.parameters, self.predicted
        fitting = SECURE_BITS[p.degree]
        packing = "one sample per request" if made.samples == 1 else f"{made.samples:,} samples per request"
        each = f", {1e3 * made.seconds / made.samples:.3g} ms per sample" if made.samples > 1 else ""
        return [
            ("packing", packing),
            ("ring", f"n = {p.degree}, {p.slots:,} slots"),
            ("primes", f"{list(p.primes)} bits, {p.bits} of the {fitting} that 128-bit security allows"),
            ("scale", f"2^{p.scale_bits}, answers times {self.gain:g}"),
            *((f"layer {layer.name}", layer.describe()) for layer in self.layers),
            ("rotation keys", str(len(self.steps))),
            ("expected time", f"{1e3 * made.seconds:,.1f} ms on one core{each}"),
            ("expected error", f"at most {made.error:.1e} per logit"),
            ("bytes", f"{made.key_bytes:,} once for keys, {made.input_bytes:,} up, {made.answer_bytes:,} down"),
        ]

    @property
    def first(self) -> Gather | None:
        """Where a client puts its inputs; None where each input has its own ciphertext."""
        return Gather(np.array(self.inputs), self.period, self.taps) if self.packing == "single" else None

    @property
    def ciphertexts(self) -> int:
        """How many ciphertexts a request carries."""
        return len(self.inputs) if self.packing == "single" else int(np.prod(self.input_shape))

    @property
    def answers(self) -> int:
        """How many ciphertexts an answer carries."""
        return 1 if self.packing == "single" else len(self.classes)

    def fingerprint(self) -> str:
        """A hash of all that a request depends on: the model, the parameters and what stands in which slot."""
        bound = {
            "model": self.model,
            "parameters": asdict(self.parameters),
            "packing": [self.packing, self.inputs, self.period, self.taps, self.steps, self.gain],
            "input": [self.input_shape, self.classes, self.low, self.high],
        }
        return sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Prepared:
    """A plan and its layout, which has the weights: the server's side."""

    plan: Plan
    layout: Layout


def plan_inference(
    model: Model,
    data: Data | None = None,
    *,
    packing: Packing | None = None,
    samples: int = 1,
    tolerance: float = 1e-4,
) -> Prepared:
    """Choose packing, ring, primes, scale and rotations for a model.

    Args:
        model: a network of affine layers and squares; any other layer is refused by its name.
        data: inputs whose values decide how large values get; without them, the worst case over the model's bounds.
        packing: `single`, `packed`, or None for the one that answers `samples` inputs sooner.
        samples: how many inputs a client has at a time.
        tolerance: the largest error of a logit that is accepted.
    """
    network = read_network(model)
    with measured(0, model.fingerprint(), data.fingerprint() if data is not None else None) as provenance:
        ranges = find_ranges(model, network, data)
        wanted: tuple[Packing, ...] = ("single", "packed") if packing is None else (packing,)
        layouts = [_smallest(network, ranges, each, tolerance) for each in wanted]
        prepared = [_describe(model, ranges, layout, calibrate(layout.parameters)) for layout in layouts]
        layout, layers, predicted = min(prepared, key=lambda each: each[2].seconds * -(-samples // each[2].samples))
    first = layout.first
    plan = Plan(
        model=model.fingerprint(), parameters=layout.parameters, packing=layout.packing,
        input_shape=model.input_shape, classes=model.classes,
        inputs=tuple(tuple(map(int, row)) for row in first.index) if first is not None else (),
        period=first.period if first is not None else 0, taps=first.taps if first is not None else 0,
        steps=layout.steps, gain=layout.gain, low=ranges.low, high=ranges.high,
        layers=layers, predicted=predicted, provenance=provenance(),
    )  # fmt: skip
    return Prepared(plan, layout)


def _smallest(network: Network, ranges: Ranges, packing: Packing, tolerance: float) -> Layout:
    """The layout in the smallest ring in which the network fits and the error stays below the tolerance."""
    depth = 2 * len(network.maps) - 1
    reached = float("inf")
    for parameters in _candidates(depth):
        layout = lay_out(network, ranges, parameters, packing)
        if layout is not None:
            reached = min(reached, layout.error)
            if layout.error <= tolerance:
                return layout
    widest = max(network.maps, key=lambda affine: len(affine.bias))
    if reached == float("inf"):
        raise EncryptError(
            f"The network needs {depth} levels and {len(widest.bias)} slots for layer '{widest.name}', which no ring "
            f"of degree {DEGREES[-1]} or less gives at 128-bit security. Use fewer activations, or a stride or a pool "
            f"in '{widest.name}'."
        )
    raise EncryptError(
        f"The error would be up to {reached:.1e} per logit, and {tolerance:.1e} is allowed. Give data that the inputs "
        "are like (--data), so that the plan need not assume the worst; or allow more (--tolerance); or use fewer "
        "layers."
    )


def _candidates(depth: int) -> Iterator[Parameters]:
    """Secure parameters of this depth, the smallest ring first; in each, the largest scale that fits."""
    for degree in DEGREES:
        for head in HEADS:
            room = SECURE_BITS[degree] - 2 * head - SPECIAL
            scale = min(room // (depth + 2), SCALES[1], LARGEST_PRIME - head - SPECIAL)
            if scale >= SCALES[0]:
                primes = (scale + head, *(scale,) * depth, scale + head + SPECIAL)
                yield Parameters(degree, primes, scale)


def _describe(
    model: Model, ranges: Ranges, layout: Layout, measured_here: Calibration
) -> tuple[Layout, tuple[Layer, ...], Prediction]:
    layers = []
    for position, (affine, counts) in enumerate(zip(layout.maps, layout.operations(), strict=True)):
        by_name = {name: sum(n for (kind, _), n in counts.items() if kind == name) for name in ("rotate", "multiply")}
        shape = (affine.weight.shape[0], affine.weight.shape[1])
        seconds = measured_here.total(counts)
        layers.append(Layer(affine.name, shape, 2 * position, by_name["rotate"], by_name["multiply"], seconds))
    single = layout.first is not None
    predicted = Prediction(
        samples=1 if single else layout.parameters.slots,
        seconds=sum(layer.seconds for layer in layers),
        input_bytes=measured_here.ciphertext_bytes
        * (len(layout.first.index) if layout.first is not None else int(np.prod(model.input_shape))),
        answer_bytes=measured_here.answer_bytes * (1 if single else len(model.classes)),
        key_bytes=measured_here.relin_bytes + measured_here.galois_bytes * len(layout.steps),
        error=layout.error,
    )
    return layout, tuple(layers), predicted
