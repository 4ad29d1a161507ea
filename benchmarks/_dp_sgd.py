"""A step of private training, against a plain step by hand and against Opacus's ghost clipping, in the same run."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from _measure import interleaved
from modelkeep import Model
from modelkeep.privacy.private_training import PrivateGradients
from modelkeep.training import Step

BATCH, RATE = 256, 0.1


def small_cnn() -> nn.Module:
    """The network on which the field measures private training of MNIST (Abadi2016's and Opacus's example)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def measure(seed: int, repeats: int = 15) -> dict[str, float]:
    """Ratios of medians of interleaved steps, both networks."""
    figures: dict[str, float] = {}
    for name, make in (("cnn", small_cnn), ("mlp", mlp)):
        taken = interleaved(_rivals(make, seed), repeats=repeats, warmups=2)
        figures[f"dp_over_plain_{name}"] = taken["ours"] / taken["plain"]
        figures[f"opacus_ghost_over_ours_{name}"] = taken["opacus"] / taken["ours"]
    figures["opacus_ghost_over_ours"] = min(
        figures["opacus_ghost_over_ours_cnn"], figures["opacus_ghost_over_ours_mlp"]
    )
    return figures


def _rivals(make: Callable[[], nn.Module], seed: int) -> dict[str, Callable[[], object]]:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.rand(BATCH, 1, 28, 28, generator=generator), torch.randint(10, (BATCH,), generator=generator)

    def network() -> nn.Module:
        torch.manual_seed(seed)
        return make().train()

    return {"plain": _plain(network(), x, y), "ours": _ours(network(), x, y), "opacus": _opacus(network(), x, y)}


def _plain(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(module(x), y))
        optimizer.step()

    return step


def _ours(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    model = Model(module, input_shape=(1, 28, 28), classes=10)
    model.module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    objective = PrivateGradients(clip=1.0, noise=1.0, batch_size=BATCH)
    moment = Step(0, 1, 1, torch.arange(BATCH), torch.Generator().manual_seed(0))

    def step() -> None:
        objective.gradients(model, x, y, moment)
        optimizer.step()

    return step


def _opacus(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(module.parameters(), lr=RATE),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=BATCH,
    )
    wrapped = GradSampleModuleFastGradientClipping(module, max_grad_norm=1.0, use_ghost_clipping=True)
    loss = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss())

    def step() -> None:
        optimizer.zero_grad()
        loss(wrapped(x), y).backward()
        optimizer.step()

    return step
