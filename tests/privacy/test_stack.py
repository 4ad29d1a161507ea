"""Networks in a stack learn what each would learn alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from core.contract.little import images, table
from modelkeep import Data, Model
from modelkeep.privacy.shadows import plan_shadows
from modelkeep.privacy.stack import Stack, can_stack, train_stacked
from modelkeep.training import SGD, Adam, Augmentation, Recipe, RMSProp, cross_entropy, fit
from modelkeep.training.fresh_network import copy_untrained


def examples(shape: tuple[int, ...]) -> Data:
    generator = torch.Generator().manual_seed(0)
    return Data(torch.rand(41, *shape, generator=generator), torch.arange(41) % 3, ("a", "b", "c"))


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))


def convolution() -> nn.Module:
    layers = [
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    ]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("optimizer", [SGD(momentum=0.9, nesterov=True, weight_decay=1e-3), Adam(), RMSProp()])
@pytest.mark.parametrize(("make", "shape"), [(dense, (6,)), (convolution, (1, 6, 6))])
def test_a_stack_is_as_good_as_a_loop(
    make: Callable[[], nn.Module], shape: tuple[int, ...], optimizer: SGD | Adam | RMSProp
) -> None:
    data, recipe = examples(shape), Recipe(epochs=3, batch_size=8, optimizer=optimizer, learning_rate=0.01)
    target = Model(make().double(), input_shape=shape, classes=3)
    assert can_stack(target, recipe)
    plan = plan_shadows(41, 4, seed=0)
    stacked, alone = ([copy_untrained(target, seed) for seed in plan.seeds] for _ in range(2))
    train_stacked(stacked, data, plan.rows, recipe, plan.seeds)
    for one, two, rows, seed in zip(stacked, alone, plan.rows, plan.seeds, strict=True):
        fit(two, data.take(rows), cross_entropy, recipe, seed=seed)
        for (name, found), wanted in zip(
            one.module.state_dict().items(), two.module.state_dict().values(), strict=True
        ):
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9, msg=name)


def test_a_stack_answers_as_its_networks_do() -> None:
    modules = [convolution().eval() for _ in range(3)]
    x = torch.rand(3, 5, 1, 6, 6)
    with torch.no_grad():
        stack = Stack(modules)
        stack.eval()
        found = stack.answers(x)
        wanted = torch.stack([module(part) for module, part in zip(modules, x, strict=True)])
    torch.testing.assert_close(found, wanted)


def test_what_cannot_be_stacked_is_known_before() -> None:
    recipe = Recipe(epochs=1)
    assert can_stack(images(), recipe)
    assert can_stack(table(), recipe)
    for other in (
        replace(recipe, sampling="poisson"),
        replace(recipe, trainable=("hidden",)),
        replace(recipe, augmentation=Augmentation(flip=True)),
        replace(recipe, micro_batches=2),
    ):
        assert not can_stack(table(), other)

    class Sorting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.linear(x)
            return found if float(found.sum()) > 0 else -found  # vmap cannot know which way to go

    assert not can_stack(Model(Sorting(), input_shape=(2,), classes=2), recipe)


def test_large_networks_are_not_stacked() -> None:
    def dense(width: int) -> Model:
        return Model(nn.Linear(10, width), input_shape=(10,), classes=width)

    assert can_stack(dense(1_000), Recipe(epochs=1))
    assert not can_stack(dense(20_000), Recipe(epochs=1))
