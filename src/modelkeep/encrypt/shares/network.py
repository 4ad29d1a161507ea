"""Network: dense layers on shares, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from modelkeep.encrypt.shares.computation import Computation, Masked, Shared

Activation = Literal["square", "relu", "none"]


@dataclass(frozen=True)
class Layer:
    """What every role knows of a layer: its sizes and what follows it."""

    inputs: int
    outputs: int
    activation: Activation


@dataclass(frozen=True, eq=False)
class Weights:
    """A layer's secrets: `weight` (inputs, outputs) and `bias` (outputs,)."""

    weight: Shared
    bias: Shared


@dataclass(frozen=True, eq=False)
class _Step:
    """What a layer leaves for the way back."""

    inputs: Masked
    weight: Masked
    slope: Masked | None  # z for a square, 1 - [z < 0] for a ReLU


def share_weights(
    c: Computation, layers: Sequence[Layer], owner: int, values: Sequence[tuple[Tensor, Tensor]] | None
) -> list[Weights]:
    """Share the weights of the owner, who alone has `values`: (weight, bias) per layer."""
    shared = []
    for number, layer in enumerate(layers):
        weight, bias = (None, None) if values is None else values[number]
        shared.append(
            Weights(c.share(owner, (layer.inputs, layer.outputs), weight), c.share(owner, (layer.outputs,), bias))
        )
    return shared


def mask_weights(c: Computation, weights: Sequence[Weights]) -> tuple[Masked, ...]:
    """Open all weights less their masks, in one round; it serves any number of passes with these weights."""
    return c.mask(*(each.weight for each in weights))


def forward(
    c: Computation, layers: Sequence[Layer], weights: Sequence[Weights], masked: Sequence[Masked], x: Masked
) -> Shared:
    """The outputs of the last layer with twice the fraction: they are revealed without being truncated."""
    for layer, secret, weight in zip(layers[:-1], weights[:-1], masked[:-1], strict=True):
        (z,) = c.truncate(_affine(c, x, weight, secret.bias))
        (x,) = c.mask(_activate(c, layer.activation, z)[0])
    return _affine(c, x, masked[-1], weights[-1].bias)


def train_step(
    c: Computation, layers: Sequence[Layer], weights: Sequence[Weights], x: Shared, y: Shared, halvings: int
) -> list[Weights]:
    """The weights after one step of gradient descent on half the squared error, summed over the batch.

    The rate is 2^-halvings, so that it costs nothing: a division by a power of two only moves the point.
    """
    first, *masked = c.mask(x, *(each.weight for each in weights))
    steps: list[_Step] = []
    inputs = first
    for number, (layer, secret, weight) in enumerate(zip(layers, weights, masked, strict=True)):
        (z,) = c.truncate(_affine(c, inputs, weight, secret.bias))
        if number == len(layers) - 1:
            steps.append(_Step(inputs, weight, None))
            break
        activated, slope = _activate(c, layer.activation, z)
        steps.append(_Step(inputs, weight, slope))
        (inputs,) = c.mask(activated)
    return _descend(c, weights, steps, z - y, halvings)


def _affine(c: Computation, x: Masked, weight: Masked, bias: Shared) -> Shared:
    product = c.matmul(x, weight)
    raised = bias.with_fraction(product.fraction)
    return product + replace(raised, words=raised.words[:, None])


def _activate(c: Computation, activation: Activation, z: Shared) -> tuple[Shared, Masked | None]:
    """The layer's output, and what its derivative needs."""
    if activation == "none":
        return z, None
    if activation == "square":
        (masked,) = c.mask(z)
        (squared,) = c.truncate(c.square(masked))
        return squared, masked
    masked, positive = c.mask(z, c.subtract_from_one(c.negative(z)))
    return c.multiply(masked, positive), positive


def _descend(
    c: Computation, weights: Sequence[Weights], steps: Sequence[_Step], error: Shared, halvings: int
) -> list[Weights]:
    """Backpropagation: each layer's update, from the last to the first."""
    updated: list[Weights] = []
    for number in reversed(range(len(steps))):
        step, secret = steps[number], weights[number]
        (back,) = c.mask(error)
        products = [c.matmul(step.inputs.T, back).divide(halvings), error.sum_rows().divide(halvings)]
        if number > 0:
            products.append(c.matmul(back, step.weight.T))
        change, shift, *earlier = c.truncate(*products)
        updated.append(Weights(secret.weight - change, secret.bias - shift))
        if number > 0:
            error = _through_activation(c, earlier[0], steps[number - 1].slope)
    return updated[::-1]


def _through_activation(c: Computation, error: Shared, slope: Masked | None) -> Shared:
    if slope is None:
        return error
    (masked,) = c.mask(error)
    product = c.multiply(masked, slope)
    if slope.fraction == 0:  # a ReLU's: 0 or 1
        return product
    return c.truncate(product.times(2))[0]
