"""Networks whose logits come out in every way that a classifier's do; factories for `Model.load`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from modelkeep.core.outputs import Output

Way = Callable[[torch.Tensor], Any]


class Net(nn.Module):
    """A small network whose logits come out as `way` says."""

    def __init__(self, way: Way, classes: int = 3) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.first = nn.Linear(4, 6)
        self.last = nn.Linear(6, classes)
        for weight in self.parameters():
            weight.data = torch.randn(weight.shape, generator=generator)
        self.way = way

    def bare(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        logits: torch.Tensor = self.last(self.first(x).tanh())
        return logits

    def forward(self, x: torch.Tensor) -> Any:
        return self.way(self.bare(x))


MANY: dict[str, tuple[Way, Output]] = {
    "tensor": (lambda z: z, Output()),
    "object": (lambda z: SimpleNamespace(loss=None, logits=z), Output(".logits")),
    "mapping": (lambda z: {"logits": z, "hidden": z[:, :1]}, Output("logits")),
    "tuple": (lambda z: (z[:, :1], z, z), Output(1)),
    "list": (lambda z: [z], Output(0)),
    "torch.softmax": (lambda z: torch.softmax(z, 1), Output("", "softmax", True)),
    "F.softmax": (lambda z: functional.softmax(z, dim=-1), Output("", "softmax", True)),
    "special": (lambda z: torch.special.softmax(z, 1), Output("", "softmax", True)),
    "z.softmax": (lambda z: z.softmax(1), Output("", "softmax", True)),
    "nn.Softmax": (nn.Softmax(dim=1), Output("", "softmax", True)),
    "aten": (lambda z: torch.ops.aten._softmax.default(z, 1, False), Output("", "softmax", True)),
    "log-softmax": (lambda z: functional.log_softmax(z, dim=1), Output("", "log-softmax", True)),
    "nn.LogSoftmax": (nn.LogSoftmax(dim=1), Output("", "log-softmax", True)),
    "softmax in a mapping": (lambda z: {"logits": z.softmax(1)}, Output("logits", "softmax", True)),
    "softmax, moved": (lambda z: z[:, None].softmax(2).squeeze(1), Output("", "softmax", True)),
    "by hand": (lambda z: z.exp() / z.exp().sum(1, keepdim=True), Output("", "softmax", False)),
}


ONE: dict[str, tuple[Way, Output]] = {
    "(n, 1)": (lambda z: z, Output(single=True)),
    "(n,)": (lambda z: z[:, 0], Output(single=True)),
    "sigmoid": (lambda z: torch.sigmoid(z), Output("", "sigmoid", True, True)),
    "nn.Sigmoid": (nn.Sigmoid(), Output("", "sigmoid", True, True)),
    "sigmoid, squeezed": (lambda z: z.sigmoid().squeeze(1), Output("", "sigmoid", True, True)),
    "sigmoid, indexed": (lambda z: torch.special.expit(z)[:, 0], Output("", "sigmoid", True, True)),
    "sigmoid, clamped": (lambda z: z.sigmoid().clamp(1e-6, 1 - 1e-6), Output("", "sigmoid", False, True)),
    "in a tuple": (lambda z: (z, z.flatten()), Output(0, single=True)),
    "with logits": (lambda z: SimpleNamespace(logits=z), Output(".logits", single=True)),
}


def network(kind: str) -> Net:
    """The network of that kind."""
    return Net(MANY[kind][0]) if kind in MANY else Net(ONE[kind][0], classes=1)
