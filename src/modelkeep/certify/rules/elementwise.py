"""Rules for what is done value by value: activations, sums, and products with constants."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from modelkeep.certify.rules.call import Call, NoRule, Rule, Value, Written, rule, value

_PLAIN: dict[str, tuple[Any, ...]] = {
    "relu": (nn.ReLU, torch.relu, functional.relu, torch.relu_, "relu", "relu_"),
    "relu6": (nn.ReLU6, functional.relu6),
    "selu": (nn.SELU, torch.selu, functional.selu),
    "tanh": (nn.Tanh, torch.tanh, functional.tanh, "tanh"),
    "sigmoid": (nn.Sigmoid, torch.sigmoid, functional.sigmoid, "sigmoid"),
    "softsign": (nn.Softsign, functional.softsign),
    "abs": (torch.abs, abs, "abs"),
    "silu": (nn.SiLU, functional.silu),
}


def _activation(call: Call, function: str, **settings: float) -> Written:
    return Written("activation", (value(call.args[0]),), {"function": function, **settings})


def _plain(function: str) -> Rule:
    return lambda call: _activation(call, function)


for _function, _targets in _PLAIN.items():
    rule(*_targets)(_plain(_function))


@rule(nn.LeakyReLU, functional.leaky_relu)
def _leaky_relu(call: Call) -> Written:
    return _activation(
        call, "leaky_relu", slope=call.bind("input", "negative_slope", negative_slope=0.01)["negative_slope"]
    )


@rule(nn.ELU, functional.elu)
def _elu(call: Call) -> Written:
    return _activation(call, "elu", alpha=call.bind("input", "alpha", alpha=1.0)["alpha"])


@rule(nn.Softplus, functional.softplus)
def _softplus(call: Call) -> Written:
    given = call.bind("input", "beta", "threshold", beta=1.0, threshold=20.0)
    if (given["beta"], given["threshold"]) != (1.0, 20.0):
        raise NoRule("it has a beta or threshold of its own")
    return _activation(call, "softplus")


@rule(nn.Hardtanh, functional.hardtanh)
def _hardtanh(call: Call) -> Written:
    given = call.bind("input", "min_val", "max_val", min_val=-1.0, max_val=1.0)
    return _activation(call, "hardtanh", low=float(given["min_val"]), high=float(given["max_val"]))


@rule(nn.GELU, functional.gelu)
def _gelu(call: Call) -> Written:
    smooth = call.bind("input", "approximate", approximate="none")["approximate"]
    return _activation(call, "gelu" if smooth == "none" else "gelu_tanh")


@rule(operator.add, torch.add, "add", operator.iadd, "add_")
def _add(call: Call) -> Written:
    return _sum(call, call.kwargs.get("alpha", 1))


@rule(operator.sub, torch.sub, "sub", operator.isub)
def _subtract(call: Call) -> Written:
    return _sum(call, -call.kwargs.get("alpha", 1))


def _sum(call: Call, second: float) -> Written:
    """The first argument and `second` times the second; either of them may be a constant."""
    a, b = call.args
    if isinstance(a, Value) and isinstance(b, Value):
        if a.shape != b.shape:
            raise NoRule(f"it adds values of different shapes, {a.shape} and {b.shape}")
        return Written("add", (a, b), {"coefficients": [1.0, float(second)]})
    if isinstance(a, Value):
        return _write_scale(call, a, factor=1.0, offset=b, offset_sign=second)
    return _write_scale(call, value(b), factor=float(second), offset=a)


@rule(operator.mul, torch.mul, "mul", operator.imul)
def _multiply(call: Call) -> Written:
    a, b = call.args
    if isinstance(a, Value) and isinstance(b, Value):
        raise NoRule("it multiplies two values that both depend on the input, which no constant bounds")
    return _write_scale(call, value(a), factor=b) if isinstance(a, Value) else _write_scale(call, value(b), factor=a)


@rule(operator.truediv, torch.div, "div", operator.itruediv)
def _divide(call: Call) -> Written:
    a, b = call.args
    if isinstance(b, Value) or call.kwargs:
        raise NoRule("it divides by a value that depends on the input, or rounds")
    return _write_scale(call, value(a), factor=1 / (b.double() if isinstance(b, torch.Tensor) else b))


@rule(operator.neg, torch.neg, "neg")
def _negate(call: Call) -> Written:
    return _write_scale(call, value(call.args[0]), factor=-1.0)


def _write_scale(call: Call, made: Value, *, factor: Any, offset: Any = 0.0, offset_sign: float = 1.0) -> Written:
    settings: dict[str, Any] = {"factor": 1.0, "offset": 0.0}
    tensors: dict[str, str] = {}
    for name, constant, sign in (("factor", factor, 1.0), ("offset", offset, offset_sign)):
        if isinstance(constant, nn.Parameter) or (isinstance(constant, torch.Tensor) and constant.requires_grad):
            if sign != 1.0:
                raise NoRule("it subtracts a parameter; add its negative instead")
            _per_channel(constant, made.shape)
            tensors[name] = call.key(constant)
        elif isinstance(constant, torch.Tensor):
            numbers = sign * _per_channel(constant, made.shape)
            settings[name] = numbers.tolist() if len(numbers) > 1 else float(numbers)
        else:
            settings[name] = sign * float(constant)
    if call.shape != made.shape:
        raise NoRule(f"the constant changes the shape from {made.shape} to {call.shape}")
    return Written("scale", (made,), settings, tensors)


def _per_channel(constant: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """The constant as one number, or one per channel, in float64; anything finer has no rule."""
    flat = constant.detach().double().reshape(-1)
    if len(flat) == 1:
        return flat
    whole = constant.detach().double().expand(1, *shape).reshape(shape[0], -1)
    if len(flat) != shape[0] or not torch.equal(whole, flat[:, None].expand_as(whole)):
        raise NoRule("its constant is neither one number nor one per channel")
    return flat
