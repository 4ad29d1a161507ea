"""Training over the integers: forward pass, gradients and updates modulo 2^k, with tables for the sigmoid and its like.

No float takes part in what is learned (Saha2020, section 3.4, asks for a library over a finite subset of the integers).
Each class has a sigmoid of its own: its cross-entropy has the gradient p - y, and a softmax would need a division.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from modelkeep.core.card import class_names
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.encrypt.integers.network import Encoder, IntegerLayer, IntegerNetwork
from modelkeep.encrypt.integers.ring import Ring, shift_right
from modelkeep.encrypt.integers.table import Table
from modelkeep.training import SGD, Fitted, Recipe, Step, fit

Rounding = Literal["stochastic", "nearest"]


@dataclass(frozen=True)
class FixedPoint:
    """How integers stand for real numbers, and where they wrap.

    An activation a stands for a / 2^`activation_bits`, a weight w for w / 2^`weight_bits`. All arithmetic is modulo
    2^`modulus`. A table reads the low `table_bits` of a sum, without the `dropped` lowest of them: with the defaults
    sums from -64 to 64 in steps of 1/128. `rate` r is a learning rate of 2^-r; with r = 0 the
    float twin was unstable on digits (0.75 after 20 epochs).
    """

    activation_bits: int = 8
    weight_bits: int = 14
    modulus: int = 40
    table_bits: int = 29
    dropped: int = 15
    rate: int = 2
    rounding: Rounding = "stochastic"

    def __post_init__(self) -> None:
        if self.rounding not in ("stochastic", "nearest"):
            raise bad_parameter("FixedPoint", "rounding", "'stochastic' or 'nearest'", self.rounding)
        if not 1 <= self.dropped < self.table_bits <= self.modulus:
            raise bad_parameter("FixedPoint", "table_bits", "between dropped and modulus", self.table_bits)

    def table(self, function: Literal["relu", "slope", "sigmoid"]) -> Table:
        """A function of a sum, as a table of activations."""
        one = 1 << self.activation_bits
        unit = one << self.weight_bits  # what stands for 1 in a sum
        entries = {
            "relu": lambda sums: shift_right(sums.clamp(min=0), self.weight_bits),
            "slope": lambda sums: (sums > 0).long() * one,
            "sigmoid": lambda sums: (one * torch.sigmoid(sums.double() / unit)).round().long(),
        }
        return Table.of(entries[function], self.table_bits, self.dropped)


class IntegerTrainee(nn.Module):
    """A dense network of integers that the one loop can hold: its parameters are whole numbers, kept as float64.

    Float64 holds every integer up to 2^53, and the loop's update with learning rate 1 subtracts whole numbers: exact.
    """

    low: torch.Tensor
    step: torch.Tensor

    def __init__(
        self, low: torch.Tensor, high: torch.Tensor, widths: Sequence[int], point: FixedPoint, seed: int
    ) -> None:
        super().__init__()
        self.point, self.ring = point, Ring(point.modulus)
        self.relu, self.slope, self.sigmoid = (point.table(name) for name in ("relu", "slope", "sigmoid"))
        self.levels = 1 << point.activation_bits  # which stands for 1
        self.register_buffer("low", low.double())
        self.register_buffer("step", ((high - low).double() / self.levels).clamp(min=1e-12))
        generator = torch.Generator().manual_seed(seed)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for before, after in pairwise(widths):
            bound = math.isqrt((6 << (2 * point.weight_bits)) // before)  # He2015, for an even distribution
            drawn = torch.randint(-bound, bound + 1, (after, before), generator=generator)
            self.weights.append(nn.Parameter(drawn.double()))
            self.biases.append(nn.Parameter(torch.zeros(after, dtype=torch.float64)))

    def network(self) -> IntegerNetwork:
        """The integer network as it is now; the last layer has no table, for the sigmoid keeps the order of scores."""
        weights = [self.ring.wrap(weight.detach().long()) for weight in self.weights]
        # A bias has the scale of a weight, and is multiplied by an input that is always 1.
        biases = [self.ring.wrap(bias.detach().long() << self.point.activation_bits) for bias in self.biases]
        tables = [self.relu] * (len(weights) - 1) + [None]
        layers = tuple(IntegerLayer(*parts) for parts in zip(weights, biases, tables, strict=True))
        return IntegerNetwork(Encoder(self.low, self.step, self.levels), layers, self.ring)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores as float logits, for the loop's evaluation."""
        network = self.network()
        unit = 1 << (self.point.activation_bits + self.point.weight_bits)
        # The parameters take no part in autograd; the objective below has gradients of its own.
        return network.scores(network.encoder(x)).double() / unit


@dataclass(frozen=True)
class IntegerGradients:
    """The objective: backpropagation in the ring, with each division a shift. Updates are whole numbers."""

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return self.gradients(model, x, y, step)

    def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        """Leave the whole-number updates in `.grad`; the mean cross-entropy, which only the history shows."""
        trainee = model.module
        assert isinstance(trainee, IntegerTrainee)
        with torch.no_grad():
            target = one_hot(y, len(model.classes)).long() << trainee.point.activation_bits
            updates, sums = integer_updates(trainee, trainee.network(), x, target, step.generator)
            for parameter, update in zip((*trainee.weights, *trainee.biases), updates, strict=True):
                parameter.grad = update.double()
            unit = 1 << (trainee.point.activation_bits + trainee.point.weight_bits)
            return binary_cross_entropy_with_logits(sums.double() / unit, one_hot(y, len(model.classes)).double())


def integer_updates(
    trainee: IntegerTrainee,
    network: IntegerNetwork,
    x: torch.Tensor,
    target: torch.Tensor,
    generator: torch.Generator | None,
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """What to subtract from the weights, then from the biases, and the last layer's sums. All are integers."""
    point, ring = trainee.point, trainee.ring
    values, all_sums = [network.encoder(x)], []
    for layer in network.layers:
        all_sums.append(ring.wrap(ring.matmul(values[-1], layer.weight.T) + layer.bias))
        values.append(trainee.relu(all_sums[-1]))
    error = trainee.sigmoid(all_sums[-1]) - target
    # A gradient has the scale of two activations, and a weight its own; the batch and the rate are powers of two.
    shift = point.activation_bits + point.rate + (len(x) - 1).bit_length() - point.weight_bits
    weights: list[torch.Tensor] = []
    biases: list[torch.Tensor] = []
    for number in reversed(range(len(network.layers))):
        layer, given = network.layers[number], values[number]
        weights.insert(0, _divide(ring.matmul(error.T, given), shift + point.activation_bits, point, generator))
        biases.insert(0, _divide(ring.wrap(error.sum(0)), shift, point, generator))
        if number > 0:
            back = _divide(ring.matmul(error, layer.weight), point.weight_bits, point, generator)
            slope = trainee.slope(all_sums[number - 1])
            error = _divide(ring.wrap(back * slope), point.activation_bits, point, generator)
    return [*weights, *biases], all_sums[-1]


def _divide(values: torch.Tensor, bits: int, point: FixedPoint, generator: torch.Generator | None) -> torch.Tensor:
    if bits <= 0:
        return values << -bits
    noise = None
    if point.rounding == "stochastic":
        noise = torch.randint(0, 1 << bits, values.shape, generator=generator)
    return shift_right(values, bits, noise)


@dataclass(frozen=True, kw_only=True, eq=False)
class IntegerTrained(Result, kind="integer-trained"):
    """A network that learned in integers alone, beside its float twin: same widths, batches, rate and loss."""

    network: IntegerNetwork = field(repr=False)
    point: FixedPoint
    integer_accuracy: Estimate
    float_accuracy: Estimate
    seconds: float
    float_seconds: float
    training: Fitted = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        p = self.point
        return [
            (
                "integers modulo",
                f"2^{p.modulus}, tables of 2^{p.table_bits - p.dropped} entries, {p.rounding} rounding",
            ),
            ("accuracy, learned in integers", str(self.integer_accuracy)),
            ("accuracy, learned in floats", str(self.float_accuracy)),
            ("time", f"{self.seconds:.3g} s in integers, {self.float_seconds:.3g} s in floats"),
        ]


def train_integers(
    data: Data,
    *,
    held_out: Data,
    hidden: Sequence[int] = (32,),
    epochs: int = 20,
    batch_size: int = 32,
    point: FixedPoint | None = None,
    seed: int = 0,
) -> IntegerTrained:
    """Train a dense network with ReLU over the integers modulo 2^k, and its float twin.

    The inputs are scaled to the range of each feature in `data`. `batch_size` is best a power of two: a division by
    it is a shift.

    >>> data = Data(torch.eye(4).repeat(8, 1), torch.arange(32) % 2, ("even", "odd"))
    >>> train_integers(data, held_out=data, hidden=[8], epochs=40, batch_size=8).integer_accuracy.value
    1.0
    """
    if len(data) == 0 or data.input_shape != held_out.input_shape:
        raise InputError(f"Both data need examples of one shape. Got {data.input_shape} and {held_out.input_shape}.")
    point = point if point is not None else FixedPoint()
    with measured(seed, None, data.fingerprint()) as provenance:
        flat = data.load().x.flatten(1)
        low, high = flat.amin(0), flat.amax(0)
        trainee = IntegerTrainee(low, high, [flat.shape[1], *hidden, len(data.classes)], point, seed)
        model = _as_model(trainee, data)
        recipe = Recipe(epochs=epochs, batch_size=batch_size, optimizer=SGD(), learning_rate=1.0)
        twin = _as_model(_FloatTwin(trainee), data)
        trained = fit(model, data, IntegerGradients(), recipe, seed=seed)
        rate = 2.0**-point.rate
        plain = fit(
            twin,
            data,
            _independent_classes,
            Recipe(epochs=epochs, batch_size=batch_size, optimizer=SGD(), learning_rate=rate),
            seed=seed,
        )
        network = trainee.network()
        right = network.predict(held_out.load().x) == held_out.y
        right_twin = twin.predict(held_out.x) == held_out.y
        return IntegerTrained(
            provenance=provenance(),
            network=network,
            point=point,
            integer_accuracy=Estimate.rate(int(right.sum()), len(right)),
            float_accuracy=Estimate.rate(int(right_twin.sum()), len(right)),
            seconds=trained.provenance.seconds,
            float_seconds=plain.provenance.seconds,
            training=trained,
        )


class _FloatTwin(nn.Module):
    """The network of a trainee in floats, from the same first weights."""

    low: torch.Tensor
    width: torch.Tensor

    def __init__(self, trainee: IntegerTrainee) -> None:
        super().__init__()
        self.register_buffer("low", trainee.low.float())
        self.register_buffer("width", (trainee.step * trainee.levels).float())
        unit = 1 << trainee.point.weight_bits
        layers: list[nn.Module] = []
        for weight in trainee.weights:
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.weight.data = (weight.detach() / unit).float()
            linear.bias.data.zero_()
            layers += [linear, nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers((x.flatten(1) - self.low) / self.width)
        return logits


def _independent_classes(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
    target = one_hot(y, len(model.classes)).to(x.dtype)
    # The sum over classes, as in integers: a mean would make the learning rate another one.
    return binary_cross_entropy_with_logits(model.forward(x), target, reduction="sum") / len(x)


def _as_model(module: nn.Module, data: Data) -> Model:
    return Model(module, input_shape=data.input_shape, classes=class_names(data.classes), bounds=None)
