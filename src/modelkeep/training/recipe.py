"""Recipe: everything that decides how a model is trained, as plain values that go into JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.training.augmentation import Augmentation
from modelkeep.training.schedules import Schedule

Parameters = Sequence[torch.nn.Parameter]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent. `weight_decay` is ℓ2 regularisation: its gradient is added to the loss's."""

    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    kind: Literal["sgd"] = "sgd"

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """The torch optimizer; the loop sets its learning rate at every step."""
        return torch.optim.SGD(
            parameters, momentum=self.momentum, nesterov=self.nesterov, weight_decay=self.weight_decay
        )


@dataclass(frozen=True)
class Adam:
    """Adam with ℓ2 regularisation, or with `decoupled` weight decay (then it is AdamW)."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False
    kind: Literal["adam"] = "adam"

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """The torch optimizer; the loop sets its learning rate at every step."""
        made = torch.optim.AdamW if self.decoupled else torch.optim.Adam
        return made(parameters, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class RMSProp:
    """RMSProp; `eps` is added outside of the square root."""

    decay: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    weight_decay: float = 0.0
    kind: Literal["rmsprop"] = "rmsprop"

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """The torch optimizer; the loop sets its learning rate at every step."""
        return torch.optim.RMSprop(
            parameters, alpha=self.decay, eps=self.eps, momentum=self.momentum, weight_decay=self.weight_decay
        )


Optimizer = Annotated[SGD | Adam | RMSProp, Field(discriminator="kind")]


@dataclass(frozen=True)
class EarlyStop:
    """Stop after `patience` evaluations without a better held-out `metric`, and go back to the best weights."""

    patience: int
    metric: Literal["loss", "accuracy"] = "loss"

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise bad_parameter("EarlyStop", "patience", "at least 1 evaluation", self.patience)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train: the number of `epochs` or of `steps` (one of the two), and the settings.

    `evaluate_every` counts steps (None: once per epoch). `trainable` names parts of the network, such as
    `("conv1", "head")`: everything else, batch-norm statistics included, stays as it is (empty: all is trained).
    `sampling="poisson"` takes each example into a batch independently, as private training must; `replays` gives
    each batch to the objective that number of times in a row, as free adversarial training does. `micro_batches` is the
    number of parts in which a batch goes through the network; their gradients are added up. That takes less memory, and
    parties that share a split network work at the same time. Batch norm then sees one part at a time.

    >>> recipe = Recipe(epochs=3, optimizer=SGD(momentum=0.9), learning_rate=0.1)
    >>> Recipe.from_json(recipe.to_json()) == recipe
    True
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    epochs: int | None = None
    steps: int | None = None
    batch_size: int = 128
    optimizer: Optimizer = Adam()
    learning_rate: float | Schedule = 1e-3
    augmentation: Augmentation | None = None
    evaluate_every: int | None = None
    early_stop: EarlyStop | None = None
    trainable: tuple[str, ...] = ()
    sampling: Literal["shuffle", "poisson"] = "shuffle"
    replays: int = 1
    micro_batches: int = 1

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise InputError(f"A Recipe needs either epochs or steps. Got epochs={self.epochs}, steps={self.steps}.")
        for name in ("epochs", "steps", "batch_size", "evaluate_every", "replays", "micro_batches"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise bad_parameter("Recipe", name, "at least 1", value)
        if isinstance(self.learning_rate, int | float) and not self.learning_rate >= 0:
            raise bad_parameter("Recipe", "learning_rate", "a number of at least 0 or a schedule", self.learning_rate)

    def total(self, per_epoch: int) -> int:
        """The number of steps of the whole run, where an epoch has `per_epoch`."""
        return self.steps if self.steps is not None else (self.epochs or 0) * per_epoch

    def trains(self, name: str) -> bool:
        """Whether the parameter, buffer or module called `name` is in the part that is trained."""
        return not self.trainable or any(name == part or name.startswith(f"{part}.") for part in self.trainable)

    def to_json(self) -> dict[str, Any]:
        """The recipe as JSON values, for the parameters of a study or the header of a file."""
        values = _adapter().dump_python(self, mode="json")
        assert isinstance(values, dict)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recipe:
        """The recipe that `to_json` wrote."""
        try:
            return _adapter().validate_python(dict(values))
        except ValidationError as error:
            raise InputError(f"This is not a recipe: {error}") from error


@cache
def _adapter() -> TypeAdapter[Recipe]:
    return TypeAdapter(Recipe)
