"""Defensive distillation (Papernot2016): a network that learns the softened answers of another one.

It hides the gradient and does not make the network robust (Carlini2017): the score says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.training import SoftAnswers, Step


@dataclass(frozen=True)
class AtTemperature:
    """The cross-entropy of the labels under the softmax at a `temperature` (Saha2020, eq. 5.5): the teacher's.

    Deployed at temperature 1, the network's logits are as many times larger, and the softmax saturates.
    """

    temperature: float

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise bad_parameter("AtTemperature", "temperature", "a number above 0", self.temperature)

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return cross_entropy(model.forward(x) / self.temperature, y)


@declare("hardening", "distil", paper="Papernot2016; Saha2020, eq. 5.5")
class Distillation:
    """A teacher is trained at a temperature, and the network learns its softened answers.

    It hides the gradient and does not make the network robust: the score says so.
    """

    temperature: float = setting("Of the softmax, in the training of both.", default=20.0, above=0, below=math.inf)


def distil(teacher: Model, data: Data, *, temperature: float = 20.0, batch_size: int = 512) -> SoftAnswers:
    """The objective that teaches a student what `teacher` answers on `data`, the data that the student is fitted to.

    >>> from torch import nn
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> teacher = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> distil(teacher, data, temperature=50).answers.shape
    torch.Size([4, 2])
    """
    if not 0 < temperature < math.inf:
        raise bad_parameter("distil", "temperature", "a number above 0", temperature)
    teacher.require_fit(data)
    answers = [(teacher.logits(x) / temperature).softmax(dim=1).cpu() for x in torch.split(data.x, batch_size)]
    return SoftAnswers(torch.cat(answers), teacher.fingerprint(), data.fingerprint(), temperature)
