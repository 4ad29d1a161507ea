"""The networks of the study, plain CNNs by depth and width, and their two phases of training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from modelkeep.attack.gradient.ascent import ascend
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball
from modelkeep.training import Loss, Step
from modelkeep.zoo.architectures.cnn import plain_cnn

WEIGHT_DECAY = 5e-4
REGULARISATIONS = ("none", "weight decay", "dropout")


def build_network(like: Data, depth: int, width: int, seed: int, *, hidden: int = 128, dropout: float = 0.0) -> Model:
    """`depth` convolutions of `width` channels each, one max pooling, two dense layers; weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = plain_cnn(like.input_shape, len(like.classes), [width] * depth, hidden, dropout)
    # On a CPU these convolutions are up to a third faster with the channels last.
    module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Model(module, input_shape=like.input_shape, classes=like.classes, bounds=like.bounds)


def clean(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
    """The first phase: cross-entropy, and the accuracy on what was trained on."""
    return _with_accuracy(model.forward(x), y)


@dataclass
class CarriedOn:
    """The second phase: cross-entropy at inputs whose attack is carried on from epoch to epoch (eq. 5.2 and 2.15).

    Each time that an example comes, `steps` more iterations of PGD start from where its last ones ended (the first
    ones at the example itself), on the network as it is then. So 20 epochs of 10 steps are one attack of 200
    iterations that knows every state of the network, at a twentieth of the cost of 200 anew in each epoch.
    """

    ball: Ball
    steps: int
    step_size: float
    _moved: torch.Tensor = field(default_factory=lambda: torch.empty(0), init=False, repr=False, compare=False)
    _seen: torch.Tensor = field(default_factory=lambda: torch.empty(0), init=False, repr=False, compare=False)

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        start = self._start(x, step)
        with model.frozen(step.generator.initial_seed()):
            moved = ascend(
                # In double precision, because in single the gradient is wrong or zero where the network is sure.
                lambda at: cross_entropy(model.forward(at).double(), y, reduction="none"),
                x,
                start,
                ball=self.ball,
                step_size=self.step_size,
                steps=self.steps,
            )
        self._moved[step.index] = moved
        return _with_accuracy(model.forward(moved), y)

    def _start(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        """Where each example of the batch stands: at itself, when it comes for the first time."""
        if step.number == 0:
            self._moved = torch.empty(0, *x.shape[1:])
            self._seen = torch.empty(0, dtype=torch.bool)
        more = int(step.index.max()) + 1 - len(self._seen)
        if more > 0:
            self._moved = torch.cat([self._moved, torch.zeros(more, *x.shape[1:])])
            self._seen = torch.cat([self._seen, torch.zeros(more, dtype=torch.bool)])
        new = ~self._seen[step.index]
        self._moved[step.index[new]] = x[new]
        self._seen[step.index] = True
        return self._moved[step.index]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"moved": self._moved, "seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with what a checkpoint kept."""
        self._moved, self._seen = state["moved"], state["seen"]


def _with_accuracy(logits: torch.Tensor, y: torch.Tensor) -> Loss:
    return cross_entropy(logits, y), {"accuracy": (logits.argmax(dim=1) == y).double().mean()}
