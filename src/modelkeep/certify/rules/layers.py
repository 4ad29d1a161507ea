"""Rules for layers: dense, convolution, normalisation, pooling, and what moves values about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from modelkeep.certify.rules.call import Call, NoRule, Value, Written, rule, value
from modelkeep.zoo.architectures.minmax import MinMax


@rule(nn.Linear, functional.linear)
def _dense(call: Call) -> Written:
    given = call.bind("input", "weight", "bias")
    return Written("dense", (value(given["input"]),), tensors=call.keys(weight=given["weight"], bias=given["bias"]))


@rule(nn.Conv1d, nn.Conv2d, functional.conv1d, functional.conv2d)
def _convolution(call: Call) -> Written:
    given = call.bind(
        "input", "weight", "bias", "stride", "padding", "dilation", "groups", stride=1, padding=0, dilation=1, groups=1
    )
    if (mode := getattr(call.part, "padding_mode", "zeros")) != "zeros":
        raise NoRule(f"its padding_mode is '{mode}', and only 'zeros' has a rule")
    made, weight = value(given["input"]), given["weight"]
    kernel, axes = weight.shape[2:], weight.ndim - 2
    dilation = _per_axis(given["dilation"], axes)
    if given["padding"] == "same":  # an odd one goes after, as in torch
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        padding = [[t // 2, t - t // 2] for t in total]
    else:
        padding = [[p, p] for p in _per_axis(0 if given["padding"] == "valid" else given["padding"], axes)]
    settings = {
        "stride": _per_axis(given["stride"], axes),
        "padding": padding,
        "dilation": dilation,
        "groups": int(given["groups"]),
    }
    return Written("convolution", (made,), settings, call.keys(weight=given["weight"], bias=given["bias"]))


@rule(nn.BatchNorm1d, nn.BatchNorm2d, functional.batch_norm)
def _batch_norm(call: Call) -> Written:
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    given = call.bind(*names, training=False, momentum=0.1, eps=1e-5)
    if given["training"] or given["running_mean"] is None:
        raise NoRule("it normalises by the batch, so that one input changes the answer for another")
    tensors = call.keys(
        mean=given["running_mean"], variance=given["running_var"], weight=given["weight"], bias=given["bias"]
    )
    return Written("batch_norm", (value(given["input"]),), {"eps": float(given["eps"])}, tensors)


@rule(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.Identity, "contiguous", "clone")
def _pass_through(call: Call) -> Written:
    return Written(None, (value(call.args[0]),))


@rule(functional.dropout)
def _dropout(call: Call) -> Written:
    if call.bind("input", "p", "training", training=True)["training"]:
        raise NoRule("it drops values at random also in eval mode")
    return _pass_through(call)


@rule(nn.Flatten, nn.Unflatten, torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze)
@rule("flatten", "view", "reshape", "squeeze", "unsqueeze", "unflatten")
def _reshape(call: Call) -> Written:
    return Written("reshape", (value(call.args[0]),))


@rule(torch.permute, "permute")
def _permute(call: Call) -> Written:
    made, *axes = call.args
    wanted = [axis % (len(value(made).shape) + 1) for axis in (axes[0] if isinstance(axes[0], Sequence) else axes)]
    if wanted[0] != 0:
        raise NoRule("it moves the axis of the batch")
    return Written("permute", (value(made),), {"axes": [axis - 1 for axis in wanted[1:]]})


@rule(torch.transpose, "transpose")
def _transpose(call: Call) -> Written:
    made, first, second = call.args
    axes = list(range(len(value(made).shape) + 1))
    axes[first], axes[second] = axes[second], axes[first]
    return _permute(replace(call, args=(made, axes), kwargs={}))


@rule(nn.PixelUnshuffle, functional.pixel_unshuffle)
def _downsample(call: Call) -> Written:
    given = call.bind("input", "downscale_factor")
    return Written("downsample", (value(given["input"]),), {"factor": int(given["downscale_factor"])})


@rule(nn.ZeroPad1d, nn.ZeroPad2d, nn.ConstantPad1d, nn.ConstantPad2d, functional.pad)
def _pad(call: Call) -> Written:
    given = call.bind("input", "padding", "mode", "value", mode="constant", value=0.0)
    given = {**given, "padding": given.get("pad", given["padding"])}
    if given["mode"] not in ("constant", None) or given["value"] not in (0, None):
        raise NoRule("it pads with something else than zeros")
    flat = list(given["padding"])
    pairs = [[flat[i], flat[i + 1]] for i in range(0, len(flat), 2)]
    return Written("pad", (value(given["input"]),), {"padding": pairs[::-1]})  # torch names the last axis first


@rule(nn.MaxPool1d, nn.MaxPool2d, functional.max_pool1d, functional.max_pool2d)
def _max_pool(call: Call) -> Written:
    names = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
    given = call.bind(*names, padding=0, dilation=1, ceil_mode=False)
    made = value(given["input"])
    settings = _windows(given, made) | {"dilation": _per_axis(given["dilation"], len(made.shape) - 1)}
    return Written("max_pool", (made,), settings)


@rule(nn.AvgPool1d, nn.AvgPool2d, functional.avg_pool1d, functional.avg_pool2d)
def _average_pool(call: Call) -> Written:
    names = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
    given = call.bind(*names, padding=0, ceil_mode=False, count_include_pad=True)
    made = value(given["input"])
    settings = _windows(given, made)
    if given["divisor_override"] is not None:
        raise NoRule("it has a divisor_override")
    if not given["count_include_pad"] and any(pair != [0, 0] for pair in settings["padding"]):
        raise NoRule("it has count_include_pad=False")
    return Written("average_pool", (made,), settings)


@rule(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d)
@rule(functional.adaptive_avg_pool1d, functional.adaptive_avg_pool2d)
def _adaptive_pool(call: Call) -> Written:
    made = value(call.args[0])
    sizes = list(zip(made.shape[1:], call.shape[1:], strict=True))
    if any(before % after for before, after in sizes):
        raise NoRule(f"{made.shape[1:]} cannot be divided evenly into {call.shape[1:]}")
    window = [before // after for before, after in sizes]
    settings: dict[str, Any] = {"kernel": window, "stride": window, "padding": [[0, 0] for _ in window]}
    if isinstance(call.part, nn.AdaptiveMaxPool1d | nn.AdaptiveMaxPool2d):
        return Written("max_pool", (made,), settings | {"dilation": [1 for _ in window]})
    return Written("average_pool", (made,), settings)


@rule(torch.mean, "mean")
def _mean(call: Call) -> Written:
    given = call.bind("input", "dim", "keepdim", keepdim=False)
    made, given_axes = value(given["input"]), given["dim"]
    if given_axes is None:
        raise NoRule("it averages over the batch")
    axes = [a % (len(made.shape) + 1) for a in (given_axes if isinstance(given_axes, Sequence) else [given_axes])]
    if 0 in axes:
        raise NoRule("it averages over the batch")
    return Written("mean", (made,), {"axes": sorted(axis - 1 for axis in axes), "keep": bool(given["keepdim"])})


@rule(torch.cat, torch.concat, torch.concatenate)
def _concatenate(call: Call) -> Written:
    given = call.bind("tensors", "dim", dim=0)
    values = tuple(value(made) for made in given["tensors"])
    axis = given["dim"] % (len(values[0].shape) + 1)
    if axis == 0:
        raise NoRule("it concatenates batches")
    return Written("concatenate", values, {"axis": axis - 1})


@rule(MinMax)
def _group_sort(call: Call) -> Written:
    return Written("group_sort", (value(call.args[0]),), {"size": 2})


def _windows(given: Mapping[str, Any], made: Value) -> dict[str, Any]:
    axes = len(made.shape) - 1
    if given["ceil_mode"]:
        raise NoRule("it has ceil_mode=True")
    kernel = _per_axis(given["kernel_size"], axes)
    stride = kernel if given["stride"] in (None, []) else _per_axis(given["stride"], axes)
    return {"kernel": kernel, "stride": stride, "padding": [[p, p] for p in _per_axis(given["padding"], axes)]}


def _per_axis(number: Any, axes: int) -> list[int]:
    return [int(n) for n in number] if isinstance(number, Sequence) else [int(number)] * axes
