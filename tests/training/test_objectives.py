"""What an objective may do beside giving a loss: weights per example, schedules, metrics, gradients of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.nn import functional

from modelkeep import Data, Model
from modelkeep.training import SGD, Linear, Loss, Recipe, Step, cross_entropy, fit

Make = Callable[[], Model]


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.module.state_dict().items()}


@dataclass(frozen=True)
class Weighted:
    """Cross-entropy with a weight per example and a scheduled penalty: uses the index, a schedule and metrics."""

    per_example: torch.Tensor = field(repr=False)
    penalty: Linear

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        losses = functional.cross_entropy(model.forward(x), y, reduction="none")
        size = torch.stack([p.square().sum() for p in model.module.parameters()]).sum()
        noise = torch.rand((), generator=step.generator)
        return (losses * self.per_example[step.index]).mean() + self.penalty(step) * size, {
            "noise": noise,
            "size": size,
        }


def test_an_objective_gets_the_examples_indices_a_schedule_and_its_metrics(fresh: Make, shapes: Data) -> None:
    only_first = (torch.arange(90) < 45).float()
    objective = Weighted(only_first, Linear(0.0, 0.01))
    models = [fresh(), fresh()]
    recipe = Recipe(epochs=2, batch_size=30, learning_rate=1e-2)
    fitted = fit(models[0], shapes, objective, recipe, seed=0)
    # The labels of examples without weight cannot matter.
    other = Data(shapes.x, torch.where(only_first.bool(), shapes.y, 2 - shapes.y), shapes.classes)
    again = fit(models[1], other, objective, recipe, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(*(weights(m).values() for m in models), strict=True))
    assert fitted.history == again.history
    assert set(fitted.history[0].metrics) == {"noise", "size"}
    assert 0 < fitted.history[0].metrics["noise"] < 1
    assert fitted.objective == "Weighted(penalty=Linear(start=0.0, end=0.01, until=1.0, unit='step', kind='linear'))"
    assert ("size", f"{fitted.history[1].metrics['size']:.4g}") in fitted.rows()


class Clipped:
    """Takes over the backward pass: the mean of per-example gradients, each clipped to norm `bound`, divided by 10."""

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.sizes: list[int] = []

    def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        parameters = list(model.module.parameters())
        total = [torch.zeros_like(p) for p in parameters]
        loss = torch.zeros(())
        for i in range(len(x)):
            loss = functional.cross_entropy(model.forward(x[i : i + 1]), y[i : i + 1])
            found = torch.autograd.grad(loss, parameters)
            norm = torch.cat([g.flatten() for g in found]).norm()
            for sum_, gradient in zip(total, found, strict=True):
                sum_ += gradient * min(1.0, self.bound / float(norm))
        for parameter, sum_ in zip(parameters, total, strict=True):
            parameter.grad = sum_ / 10
        self.sizes.append(len(x))
        return loss


def test_an_objective_may_compute_its_own_gradients(small_cnn: Model, shapes: Data) -> None:
    data = Data(shapes.x, shapes.y, small_cnn.classes)
    before = weights(small_cnn)
    objective = Clipped(0.01)
    fit(small_cnn, data, objective, Recipe(steps=4, batch_size=10, optimizer=SGD(), learning_rate=1.0), seed=0)
    moved = torch.cat([(w - before[name]).flatten() for name, w in weights(small_cnn).items()]).norm()
    assert objective.sizes == [10] * 4
    assert 0 < moved <= 4 * 0.01 + 1e-6


def test_poisson_sampling_gives_batches_of_any_size_also_none(small_cnn: Model, shapes: Data) -> None:
    data = Data(shapes.x, shapes.y, small_cnn.classes)
    objective = Clipped(0.01)
    recipe = Recipe(steps=30, batch_size=1, sampling="poisson", optimizer=SGD())
    fit(small_cnn, data, objective, recipe, seed=0)
    assert min(objective.sizes) == 0
    assert max(objective.sizes) > 1
    fitted = fit(small_cnn, data, cross_entropy, recipe, seed=0)  # an empty batch: no step, and no NaN
    assert fitted.history[-1].train_loss > 0


def test_a_replayed_batch_is_the_same_batch(fresh: Make, shapes: Data) -> None:
    seen: list[torch.Tensor] = []

    def watching(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        seen.append(x.clone())
        return cross_entropy(model, x, y, step)

    recipe = Recipe.from_json({"steps": 6, "batch_size": 8, "replays": 3, "augmentation": {"flip": True, "shift": 0.1}})
    fit(fresh(), shapes, watching, recipe, seed=0)
    assert torch.equal(seen[0], seen[2])
    assert torch.equal(seen[3], seen[5])
    assert not torch.equal(seen[2], seen[3])
