"""Running operations in torch: in any floating type, with gradients, and with or without their constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional

from modelkeep.certify.operations import Operation

Tensors = Mapping[str, torch.Tensor]


def run(
    operations: Iterable[Operation],
    x: torch.Tensor,
    tensors: Tensors,
    *,
    start: str = "input",
    constants: bool = True,
) -> dict[str, torch.Tensor]:
    """The values of all operations, by name, where the value `start` is `x: (n, ...)`.

    Without `constants` (biases, offsets, means) an affine operation is its linear part. Weights are taken in the
    type of `x`.
    """
    values = {start: x}
    for operation in operations:
        if operation.name not in values:
            given = [values[name] for name in operation.inputs]
            values[operation.name] = run_operation(operation, given, tensors, constants=constants)
    return values


def run_operation(
    operation: Operation, given: list[torch.Tensor], tensors: Tensors, *, constants: bool = True
) -> torch.Tensor:
    """What the operation makes of the values `given`, `(n, ...)` each."""
    like, settings = given[0], operation.settings

    def tensor(name: str) -> torch.Tensor | None:
        key = operation.tensors.get(name)
        return None if key is None else tensors[key].to(like)

    match operation.kind:
        case "add":
            scaled = [c * value if c != 1 else value for c, value in zip(settings["coefficients"], given, strict=True)]
            return torch.stack(scaled).sum(dim=0) if len(scaled) > 2 else scaled[0] + scaled[-1]
        case "concatenate":
            return torch.cat(given, dim=settings["axis"] + 1)
        case "dense":
            weight = tensor("weight")
            assert weight is not None
            return functional.linear(like, weight, tensor("bias") if constants else None)
        case "convolution":
            return _convolution(operation, like, tensor, constants)
        case "batch_norm" | "scale":
            factor, offset = channel_scale(operation, tensors, like)
            return like * factor + offset if constants else like * factor
        case "activation":
            return _FUNCTIONS[settings["function"]](like, settings)
        case "group_sort":
            grouped = like.reshape(len(like), -1, settings["size"], *like.shape[2:])
            return grouped.sort(dim=2, descending=True).values.flatten(1, 2)
        case "average_pool":
            return _average_pool(settings, like)
        case "max_pool":
            return _max_pool(settings, like)
        case "mean":
            return like.mean([axis + 1 for axis in settings["axes"]], keepdim=settings["keep"])
        case "pad":
            return functional.pad(like, _flat(settings["padding"]))
        case "reshape":
            return like.reshape(len(like), *operation.shape)
        case "permute":
            return like.permute(0, *(axis + 1 for axis in settings["axes"]))
        case "downsample":
            return functional.pixel_unshuffle(like, settings["factor"])
    raise AssertionError(f"{operation.kind} is not computed")


def channel_scale(operation: Operation, tensors: Tensors, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Factor and offset of a `scale` or of a batch norm in eval mode, shaped to multiply `like: (n, channels, ...)`."""
    given = {name: tensors[key].to(like) for name, key in operation.tensors.items()}
    if operation.kind == "batch_norm":
        factor = (given["variance"] + operation.settings["eps"]).rsqrt()
        factor = factor * given["weight"] if "weight" in given else factor
        offset = -given["mean"] * factor
        offset = offset + given["bias"] if "bias" in given else offset
    else:
        factor, offset = (
            given[name]
            if name in given
            else torch.as_tensor(operation.settings[name], dtype=like.dtype, device=like.device)
            for name in ("factor", "offset")
        )
    shape = (-1, *(1,) * (like.ndim - 2))
    return factor.reshape(shape), offset.reshape(shape)


def without_signs(operation: Operation) -> Operation:
    """The operation with absolute coefficients and factors; its weights are for the caller."""
    settings = dict(operation.settings)
    if "coefficients" in settings:
        settings["coefficients"] = [abs(c) for c in settings["coefficients"]]
    if "factor" in settings and operation.kind == "scale":
        settings["factor"] = torch.as_tensor(settings["factor"]).abs().tolist()
    return replace(operation, settings=settings)


def _flat(padding: list[list[int]]) -> list[int]:
    """Pairs per axis in torch's order: the last axis first."""
    return [side for pair in reversed(padding) for side in pair]


def _convolution(
    operation: Operation, like: torch.Tensor, tensor: Callable[[str], torch.Tensor | None], constants: bool
) -> torch.Tensor:
    settings, weight = operation.settings, tensor("weight")
    assert weight is not None
    padding = [before for before, _ in settings["padding"]]
    if any(before != after for before, after in settings["padding"]):
        like, padding = functional.pad(like, _flat(settings["padding"])), [0] * len(padding)
    convolve: Any = functional.conv1d if weight.ndim == 3 else functional.conv2d
    made: torch.Tensor = convolve(
        like,
        weight,
        tensor("bias") if constants else None,
        settings["stride"],
        padding,
        settings["dilation"],
        settings["groups"],
    )
    return made


def _average_pool(settings: Mapping[str, Any], like: torch.Tensor) -> torch.Tensor:
    pool: Any = functional.avg_pool1d if like.ndim == 3 else functional.avg_pool2d
    made: torch.Tensor = pool(functional.pad(like, _flat(settings["padding"])), settings["kernel"], settings["stride"])
    return made


def _max_pool(settings: Mapping[str, Any], like: torch.Tensor) -> torch.Tensor:
    pool: Any = functional.max_pool1d if like.ndim == 3 else functional.max_pool2d
    padded = functional.pad(like, _flat(settings["padding"]), value=-torch.inf)
    made: torch.Tensor = pool(padded, settings["kernel"], settings["stride"], 0, settings["dilation"])
    return made


_FUNCTIONS: dict[str, Callable[[torch.Tensor, Mapping[str, Any]], torch.Tensor]] = {
    "relu": lambda x, _: x.relu(),
    "relu6": lambda x, _: functional.relu6(x),
    "leaky_relu": lambda x, s: functional.leaky_relu(x, s["slope"]),
    "elu": lambda x, s: functional.elu(x, s["alpha"]),
    "selu": lambda x, _: functional.selu(x),
    "softplus": lambda x, _: functional.softplus(x),
    "tanh": lambda x, _: x.tanh(),
    "sigmoid": lambda x, _: x.sigmoid(),
    "hardtanh": lambda x, s: x.clamp(s["low"], s["high"]),
    "softsign": lambda x, _: functional.softsign(x),
    "abs": lambda x, _: x.abs(),
    "gelu": lambda x, _: functional.gelu(x),
    "gelu_tanh": lambda x, _: functional.gelu(x, approximate="tanh"),
    "silu": lambda x, _: functional.silu(x),
}
