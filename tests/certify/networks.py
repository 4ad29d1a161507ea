"""Networks to certify, drawn or made to mislead, and the plain ways to find out how much they stretch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.norms import Norm
from modelkeep.zoo.architectures import MinMax

ORDER: dict[Norm, float] = {"l2": 2.0, "linf": math.inf, "l1": 1.0}
DUAL: dict[Norm, float] = {"l2": 2.0, "linf": 1.0, "l1": math.inf}
NORMS: tuple[Norm, ...] = ("l2", "linf", "l1")


class Net(nn.Module):
    """Any function of its parts and the input, as a module."""

    def __init__(self, function: Callable[[Any, torch.Tensor], torch.Tensor], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def model_of(module: nn.Module, *shape: int, classes: int = 3, **card: Any) -> Model:
    """A model of any range of inputs."""
    return Model(module, input_shape=shape, classes=classes, bounds=None, **card)


def dense(weight: list[list[float]]) -> nn.Linear:
    """A dense layer with this weight and no bias."""
    layer = nn.Linear(len(weight[0]), len(weight), bias=False)
    layer.weight.data.copy_(torch.tensor(weight))
    return layer


def exactly(model: Model) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model in float64: what it would compute without rounding, but for 1e-16."""
    module = copy.deepcopy(model.module).double()
    before = model.card.preprocessing.module(model.input_shape).to(dtype=model.dtype).double()
    return lambda x: module(before(x))


def jacobians(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The Jacobian of the logits at each input, by autograd in float64: (n, m, d)."""
    run = exactly(model)
    x = x.double().requires_grad_()
    logits = run(x)
    rows = [torch.autograd.grad(column.sum(), x, retain_graph=True)[0].flatten(1) for column in logits.unbind(1)]
    return torch.stack(rows, dim=1)


def steepest(model: Model, x: torch.Tensor, norm: Norm) -> torch.Tensor:
    """The largest slope of each margin that is seen at these inputs, or between them: (m, m)."""
    rows = jacobians(model, x)
    local = torch.linalg.vector_norm(rows[:, :, None] - rows[:, None], ord=DUAL[norm], dim=3).amax(dim=0)
    with torch.no_grad():
        logits = exactly(model)(x.double())
    change = (logits - logits.roll(1, 0))[:, :, None] - (logits - logits.roll(1, 0))[:, None]
    length = torch.linalg.vector_norm((x - x.roll(1, 0)).double().flatten(1), ord=ORDER[norm], dim=1)
    return torch.maximum(local, (change.abs() / length[:, None, None]).amax(dim=0))


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "leaky_relu": lambda: nn.LeakyReLU(0.3),
    "steep_leaky_relu": lambda: nn.LeakyReLU(-2.5),
    "elu": lambda: nn.ELU(1.7),
    "selu": nn.SELU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "hardtanh": lambda: nn.Hardtanh(-0.3, 0.7),
    "softsign": nn.Softsign,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "silu": nn.SiLU,
    "abs": lambda: Net(lambda _, x: x.abs()),
    "minmax": MinMax,
    "none": nn.Identity,
}


def drawn(seed: int, activations: tuple[str, ...] = tuple(ACTIVATIONS)) -> Model:
    """A random small network: a chain of 1 to 4 parts, each plain, residual, concatenated, pooled or moved about.

    Where "none" is the only activation, it is affine as a whole.
    """
    generator, affine = torch.Generator().manual_seed(seed), activations == ("none",)

    def pick(*choices: Any) -> Any:
        return choices[int(torch.randint(len(choices), (), generator=generator))]

    flat = pick(True, False)
    shape = (pick(3, 6),) if flat else pick((2, 6), (2, 5, 5), (1, 6, 4))
    x = torch.zeros(2, *shape)
    parts: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(pick(1, 2, 3, 4)):
            part = _flat_part(pick, x.shape[1], affine) if flat else _spatial_part(pick, x, affine)
            activation = ACTIVATIONS[pick(*activations)]()
            if isinstance(activation, MinMax) and part(x).shape[1] % 2:
                activation = nn.Identity()
            parts += [part, activation]
            x = activation(part(x))
        if not flat or pick(True, False):
            parts += [nn.Flatten(), nn.Linear(x.flatten(1).shape[1], 3)]
            x = torch.zeros(2, 3)
        module = nn.Sequential(*parts).eval()
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                _unsettle(layer)
    return model_of(module, *shape, classes=x.shape[1])


def _unsettle(layer: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    nn.init.normal_(layer.weight, std=3)
    nn.init.normal_(layer.bias)
    nn.init.normal_(layer.running_mean)
    nn.init.uniform_(layer.running_var, 0.01, 2)


def _flat_part(pick: Callable[..., Any], width: int, affine: bool) -> nn.Module:
    wide = pick(2, 4, 6)
    kinds: list[Callable[[], nn.Module]] = [
        lambda: nn.Linear(width, wide),
        lambda: nn.Sequential(nn.Linear(width, wide), nn.BatchNorm1d(wide)),
        lambda: Net(lambda s, x: x + s.inner(x), inner=nn.Linear(width, width)),
        lambda: Net(lambda s, x: torch.cat([x, -2 * s.inner(x)], 1), inner=nn.Linear(width, 2)),
        lambda: Net(lambda s, x: s.inner(s.inner(x)), inner=nn.Linear(width, width)),
        lambda: Net(lambda s, x: x * s.scale / -0.7 + s.scale, scale=nn.Parameter(torch.randn(width))),
    ]
    bent: list[Callable[[], nn.Module]] = [
        lambda: Net(lambda s, x: x - 0.5 * s.inner(x).tanh(), inner=nn.Linear(width, width)),
        lambda: Net(lambda s, x: torch.cat([x, -2 * s.inner(x).relu()], 1), inner=nn.Linear(width, 2)),
        lambda: Net(lambda s, x: s.inner(s.inner(x).relu()), inner=nn.Linear(width, width)),
    ]
    made: nn.Module = pick(*kinds, *([] if affine else bent))()
    return made


def _spatial_part(pick: Callable[..., Any], x: torch.Tensor, affine: bool) -> nn.Module:
    channels, axes = x.shape[1], x.ndim - 2
    convolution: Any = nn.Conv1d if axes == 1 else nn.Conv2d
    average: Any = nn.AvgPool1d if axes == 1 else nn.AvgPool2d
    largest: Any = nn.MaxPool1d if axes == 1 else nn.MaxPool2d
    wide, stride, dilation = pick(2, 4), pick(1, 1, 2), pick(1, 2)
    kinds: list[Callable[[], nn.Module]] = [
        lambda: convolution(channels, wide, 3, stride, padding=2, dilation=dilation),
        lambda: convolution(channels, wide, pick(2, 3), padding="same", dilation=dilation),
        lambda: convolution(channels, channels * 2, 2, stride, padding=1, groups=channels),
        lambda: Net(lambda s, x: x + s.inner(x), inner=convolution(channels, channels, 3, padding=1)),
        lambda: Net(lambda s, x: torch.cat([x, s.inner(x)], 1), inner=convolution(channels, 2, 1)),
        lambda: average(3, pick(1, 2), padding=1),
        lambda: Net(lambda s, x: x.transpose(1, 2)),
    ]
    bent: list[Callable[[], nn.Module]] = [
        lambda: Net(lambda s, x: s.inner(x).relu() - x, inner=convolution(channels, channels, 3, padding=1)),
        lambda: largest(3, pick(1, 2), padding=1),
        lambda: largest(2, 1, padding=1, dilation=dilation if min(x.shape[2:]) > 1 else 1),
    ]
    if axes == 2:
        kinds += [
            lambda: nn.Sequential(nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide)),
            lambda: nn.ZeroPad2d((1, -1, 0, 2)),
        ]
        if min(x.shape[2:]) >= 4 and x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
            kinds += [lambda: nn.PixelUnshuffle(2), lambda: nn.AdaptiveAvgPool2d(2)]
            bent += [lambda: nn.AdaptiveMaxPool2d(2)]
    made: nn.Module = pick(*kinds, *([] if affine else bent))()
    return made
