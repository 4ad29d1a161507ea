"""Stack: many networks of one architecture that are trained at once, by the one loop.

Each tensor of the stack holds that tensor of all networks. One pass of `torch.func.vmap` takes the place of many small
ones. Optimizers work on each number by itself, so the stack is trained as each network would be alone, up to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import cross_entropy

from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.training import Recipe, Step, fit
from modelkeep.training.batches import Batches

MOST_WEIGHTS = 200_000
"""Larger networks are trained one after the other. A stack saves the overhead of many small operations. LeNet on MNIST
(430,000 weights) took 1.11 ms per example in a stack of 10 and 1.03 alone, on CIFAR-10 1.83 and 1.40."""


class Stack(nn.Module):
    """Networks of one architecture as one module; `answers` is the pass through all of them."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        parameters, buffers = stack_module_state(list(modules))
        self._names = tuple(parameters), tuple(buffers)
        self._template = (copy.deepcopy(modules[0]),)  # in a tuple, so that its weights do not count
        self.stacked = nn.ParameterList(nn.Parameter(tensor.detach()) for tensor in parameters.values())
        for i, tensor in enumerate(buffers.values()):
            self.register_buffer(f"buffer{i}", tensor.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two zeros for each of the loop's empty examples: a module must answer something, and nothing uses it."""
        return x.new_zeros(len(x), 2)

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        """The logits `(k, n, classes)` of inputs `(k, n, ...)`, of which each network gets its own."""
        template = self._template[0].train(self.training)

        def run(parameters: dict[str, torch.Tensor], buffers: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = functional_call(template, (parameters, buffers), (x,))
            return logits

        parameters, buffers = self._tensors()
        logits: torch.Tensor = vmap(run, randomness="different")(parameters, buffers, x)
        return logits

    def unstack(self, modules: Sequence[nn.Module]) -> None:
        """Give each network its own tensors."""
        parameters, buffers = self._tensors()
        for i, module in enumerate(modules):
            with torch.no_grad():
                for own, stacked in ((module.named_parameters(), parameters), (module.named_buffers(), buffers)):
                    for name, tensor in own:
                        tensor.copy_(stacked[name][i])

    def _tensors(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        buffers = [self.get_buffer(f"buffer{i}") for i in range(len(self._names[1]))]
        return dict(zip(self._names[0], self.stacked, strict=True)), dict(zip(self._names[1], buffers, strict=True))


@dataclass(frozen=True)
class StackedCrossEntropy:
    """The sum of the networks' mean losses, each on the batch that it would see if it were trained alone.

    The batches are drawn here and not by the loop: `rows: (k, n)` are the examples of each network in `data`, and
    `batches` has the order of each.
    """

    data: Data = field(repr=False)
    rows: torch.Tensor = field(repr=False)
    batches: tuple[Batches, ...] = field(repr=False)
    like: Model = field(repr=False)
    name: str = "stacked cross-entropy"

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        index = self.rows.gather(1, torch.stack([batches.index(step.number) for batches in self.batches]))
        networks, size = index.shape
        inputs = self.data.rows(index.flatten()).to(self.like.device, self.like.dtype)
        labels = self.data.y[index.flatten()].to(self.like.device)
        prepared = self.like.preprocess(inputs)
        assert isinstance(model.module, Stack)
        logits = model.module.answers(prepared.reshape(networks, size, *prepared.shape[1:]))
        return cross_entropy(logits.flatten(0, 1), labels, reduction="sum") / size


def train_stacked(
    models: Sequence[Model], data: Data, rows: torch.Tensor, recipe: Recipe, seeds: Sequence[int]
) -> None:
    """Train `models[i]` on the examples `rows[i]` of `data`, as `fit(…, seed=seeds[i])` does, all at once.

    A network that draws random numbers, such as by dropout, draws others than it would alone.
    """
    modules = [model.module for model in models]
    stack = Model(Stack(modules), input_shape=(1,), classes=2, bounds=None, device=models[0].device)
    batches = tuple(Batches(rows.shape[1], recipe, seed) for seed in seeds)
    objective = StackedCrossEntropy(data, rows, batches, models[0])
    # What the loop counts: as many examples as each network has, with nothing in them.
    steps = Data(torch.zeros(rows.shape[1], 1), torch.zeros(rows.shape[1], dtype=torch.int64), stack.classes)
    fit(stack, steps, objective, recipe, seed=seeds[0])
    assert isinstance(stack.module, Stack)
    stack.module.unstack(modules)


def can_stack(model: Model, recipe: Recipe) -> bool:
    """Whether networks like this one can be trained as a stack by this recipe, and faster than alone.

    Whether `vmap` knows all operations is found out by one small batch.
    """
    if sum(parameter.numel() for parameter in model.module.parameters()) > MOST_WEIGHTS:
        return False
    plain = Recipe(steps=1)
    other = replace(recipe, epochs=None, steps=1, batch_size=plain.batch_size, optimizer=plain.optimizer)
    if replace(other, learning_rate=plain.learning_rate, evaluate_every=None) != plain:
        return False  # augmentation, Poisson sampling, parts: what the loop does to one network's batches
    modules = [copy.deepcopy(model.module) for _ in range(2)]
    try:
        with torch.random.fork_rng(devices=[]):
            x = model.preprocess(model.probe())
            stack = Stack(modules)
            stack.train()
            torch.autograd.backward(stack.answers(torch.stack([x, x])).sum())
    except RuntimeError:  # what vmap says of an operation that it does not know
        return False
    return True
