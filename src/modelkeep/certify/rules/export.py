"""Rules for networks that were read from a file: what torch.export (.pt2) and ONNX (.onnx) call the same operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional

from modelkeep.certify.rules import elementwise, layers  # noqa: F401 - they enter what is taken up here
from modelkeep.certify.rules.call import RULES, Call, NoRule, Written, rule, value
from modelkeep.core.formats.onnx import run_operation

aten = torch.ops.aten
_SAME: dict[Any, Any] = {
    aten.linear.default: functional.linear,
    aten.conv1d.default: functional.conv1d,
    aten.conv2d.default: functional.conv2d,
    aten.conv2d.padding: functional.conv2d,
    aten.max_pool2d.default: functional.max_pool2d,
    aten.avg_pool2d.default: functional.avg_pool2d,
    aten.adaptive_avg_pool2d.default: functional.adaptive_avg_pool2d,
    aten.pixel_unshuffle.default: functional.pixel_unshuffle,
    aten.pad.default: functional.pad,
    aten.dropout.default: functional.dropout,
    aten.flatten.using_ints: torch.flatten,
    aten.view.default: torch.reshape,
    aten.reshape.default: torch.reshape,
    aten.permute.default: torch.permute,
    aten.transpose.int: torch.transpose,
    aten.cat.default: torch.cat,
    aten.mean.dim: torch.mean,
    aten.add.Tensor: torch.add,
    aten.sub.Tensor: torch.sub,
    aten.mul.Tensor: torch.mul,
    aten.div.Tensor: torch.div,
    aten.neg.default: torch.neg,
    aten.relu.default: torch.relu,
    aten.relu_.default: torch.relu,
    aten.tanh.default: torch.tanh,
    aten.sigmoid.default: torch.sigmoid,
    aten.abs.default: torch.abs,
    aten.silu.default: functional.silu,
    aten.selu.default: functional.selu,
    aten.gelu.default: functional.gelu,
    aten.softplus.default: functional.softplus,
    aten.leaky_relu.default: functional.leaky_relu,
    aten.hardtanh.default: functional.hardtanh,
}
RULES.update({target: RULES[same] for target, same in _SAME.items()})


@rule(aten.elu.default)
def _elu(call: Call) -> Written:
    if len(call.args) > 2 or set(call.kwargs) - {"alpha"}:
        raise NoRule("it scales what it is given or what it makes")
    return RULES[functional.elu](call)


@rule(aten.batch_norm.default)
def _batch_norm(call: Call) -> Written:
    x, weight, bias, mean, variance, training, momentum, eps, _ = call.args
    ordered = (x, mean, variance, weight, bias, training, momentum, eps)
    return RULES[functional.batch_norm](replace(call, args=ordered))


@rule(run_operation)
def _onnx(call: Call) -> Written:
    kind, given, attributes = call.args
    if kind in _ONNX:
        setting = {"LeakyRelu": "negative_slope", "Elu": "alpha", "Gelu": "approximate"}.get(kind)
        settings = {setting: next(iter(attributes.values()))} if setting and attributes else {}
        return RULES[_ONNX[kind]](replace(call, args=tuple(given), kwargs=settings))
    made = {"Conv": _conv, "Gemm": _gemm, "BatchNormalization": _normalisation, "MaxPool": _pool, "AveragePool": _pool}
    if kind not in made:
        raise NoRule(f"ONNX's {kind} has no rule for how much it can stretch what it is given")
    return made[kind](call, given, attributes)


_ONNX: Mapping[str, Any] = {
    "Relu": torch.relu,
    "Tanh": torch.tanh,
    "Sigmoid": torch.sigmoid,
    "Softsign": functional.softsign,
    "LeakyRelu": functional.leaky_relu,
    "Elu": functional.elu,
    "Gelu": functional.gelu,
    "Abs": torch.abs,
    "Neg": torch.neg,
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Flatten": torch.flatten,
    "Reshape": torch.reshape,
    "Identity": "clone",
    "Dropout": "clone",
}


def _conv(call: Call, given: list[Any], attributes: Mapping[str, Any]) -> Written:
    axes = given[1].ndim - 2
    settings = _windows(attributes, axes) | {"groups": int(attributes.get("group", 1))}
    del settings["kernel"]
    named = dict(zip(("weight", "bias"), given[1:], strict=False))
    return Written("convolution", (value(given[0]),), settings, call.keys(**named))


def _gemm(call: Call, given: list[Any], attributes: Mapping[str, Any]) -> Written:
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
    if any(attributes.get(name, 0 if name == "transB" else number) != number for name, number in plain.items()):
        raise NoRule("it is a Gemm with factors, or with a weight that is not transposed")
    named = dict(zip(("weight", "bias"), given[1:], strict=False))
    return Written("dense", (value(given[0]),), tensors=call.keys(**named))


def _normalisation(call: Call, given: list[Any], attributes: Mapping[str, Any]) -> Written:
    if attributes.get("training_mode", 0):
        raise NoRule("it normalises by the batch")
    named = dict(zip(("weight", "bias", "mean", "variance"), given[1:], strict=True))
    settings = {"eps": float(attributes.get("epsilon", 1e-5))}
    return Written("batch_norm", (value(given[0]),), settings, call.keys(**named))


def _pool(call: Call, given: list[Any], attributes: Mapping[str, Any]) -> Written:
    made = value(given[0])
    settings = _windows(attributes, len(made.shape) - 1)
    if call.args[0] == "MaxPool":
        return Written("max_pool", (made,), settings)
    del settings["dilation"]
    if any(pair != [0, 0] for pair in settings["padding"]) and not attributes.get("count_include_pad", 0):
        raise NoRule("its average leaves out the padding")
    return Written("average_pool", (made,), settings)


def _windows(attributes: Mapping[str, Any], axes: int) -> dict[str, Any]:
    if attributes.get("ceil_mode", 0) or attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise NoRule("it has ceil_mode or auto_pad")
    pads = list(attributes.get("pads", [0] * 2 * axes))
    return {
        "kernel": list(attributes.get("kernel_shape", [])),
        "stride": list(attributes.get("strides", [1] * axes)),
        "dilation": list(attributes.get("dilations", [1] * axes)),
        "padding": [[pads[i], pads[i + axes]] for i in range(axes)],
    }
