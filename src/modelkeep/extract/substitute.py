"""Substitute: the thief's own network, trained on the recovered answers with the one loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from modelkeep.attack.transfer.proxy import Architecture, Interface, new_network
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.nest import Nest
from modelkeep.training import Loss, Objective, Recipe, SoftAnswers, Step, fit
from modelkeep.training.schedules import Linear

STEPS, EPOCHS, BATCH = 800, 20, 64


def recipe_until_converged(questions: int) -> Recipe:
    """How a thief trains who tries: so many steps that more of them do not help, also where he has few answers.

    Chosen on training digits that no copy learnt from: at 125 to 1,000 questions 500 steps were a point better than
    300, and 1,000 hardly better than 500. With a fixed number of epochs nine points are left at 125 questions.

    >>> recipe_until_converged(125).steps, recipe_until_converged(10_000).steps
    (800, 3140)
    """
    steps = max(STEPS, EPOCHS * math.ceil(questions / BATCH))
    return Recipe(steps=steps, batch_size=BATCH, learning_rate=Linear(2e-3, 0.0))


def train_substitute(
    target: Interface,
    questions: torch.Tensor,
    answers: torch.Tensor,
    *,
    architecture: Architecture | None = None,
    recipe: Recipe | None = None,
    objective: Callable[[torch.Tensor, str], Objective] | None = None,
    rotations: bool = False,
    nest: Nest | None = None,
    seed: int,
) -> Model:
    """A new network that learnt `answers: (n, classes)` to `questions: (n, ...)`, all of them.

    Without a `recipe` it trains until it has converged. `objective` makes another loss than the cross-entropy of the
    answers, from the answers and the fingerprint of the data.

    With `rotations` it also learns by how much a question was turned (S4L). `nest` says what a question is made of,
    where the target does not.
    """
    recipe = recipe or recipe_until_converged(len(questions))
    model = new_network(target, questions, architecture, seed, nest=nest)
    bounds = target.bounds if model.nest is None else None  # token ids have none, whatever a remote target is said to
    data = Data(questions, answers.argmax(dim=1), target.classes, name="the target's answers", bounds=bounds)
    made_for = data.fingerprint()
    if not rotations:
        made = SoftAnswers(answers, "the target", made_for) if objective is None else objective(answers, made_for)
        fit(model, data, made, recipe, seed=seed)
        return model
    if len(target.input_shape) != 3 or target.input_shape[1] != target.input_shape[2]:
        raise InputError(f"S4L turns square images (c, n, n). The target takes inputs of shape {target.input_shape}.")
    two_headed = Model.from_card(TwoHeaded(model.module, seed), model.card, model.device)
    fit(two_headed, data, Rotations(answers, made_for), recipe, seed=seed)
    return model


class TwoHeaded(nn.Module):
    """A classifier with a second last layer, which says by how many quarters its input was turned."""

    def __init__(self, module: nn.Module, seed: int) -> None:
        super().__init__()
        linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
        if not linear:
            raise InputError("S4L shares all but the last dense layer with its second head. This network has none.")
        self.module = module
        self._last = (linear[-1],)  # in a tuple, so that torch does not count it twice
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.turned = nn.Linear(linear[-1].in_features, 4).to(linear[-1].weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.module(x)
        assert isinstance(logits, torch.Tensor)
        return logits

    def both(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits of the classes and those of the turns, from one pass."""
        caught: list[torch.Tensor] = []
        with self._last[0].register_forward_pre_hook(lambda _, given: caught.append(given[0])):
            logits = self(x)
        return logits, self.turned(caught[-1])


@dataclass(frozen=True)
class Rotations:
    """S4L's loss: the cross-entropy of the answers, and the mean one of the turns over all four of each input."""

    answers: torch.Tensor = field(repr=False, compare=False)
    made_for: str

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        assert isinstance(model.module, TwoHeaded)
        turned = torch.cat([x.rot90(quarters, (2, 3)) for quarters in range(4)])
        quarters = torch.arange(4, device=x.device).repeat_interleave(len(x))
        logits, turns = model.module.both(model.preprocess(turned))  # turned by 0 is the question itself
        answers = self.answers[step.index].to(model.device, model.dtype)
        rotation = cross_entropy(turns, quarters)
        return cross_entropy(logits[: len(x)], answers) + rotation, {"rotation": rotation}


@dataclass(frozen=True)
class Distances:
    """The mean ℓ1 distance of the network's probabilities from the answers, with which D-DAE's restorer is trained."""

    answers: torch.Tensor = field(repr=False, compare=False)
    made_for: str

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        answers = self.answers[step.index].to(model.device, model.dtype)
        return (model.forward(x).softmax(dim=1) - answers).abs().sum(dim=1).mean(), {}
