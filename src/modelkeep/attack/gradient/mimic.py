"""Mimic and Fool: an input with the features of another input, whatever is computed from them (Chaturvedi2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from modelkeep.attack.adaptive import victim_of
from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case, Search
from modelkeep.attack.schedule import cosine_length
from modelkeep.core.access import Labels, Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, SliceError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model

_GUIDES = 1000  # examples of the data, at most, among which each looks for the one to mimic


@declare("attack", "mimic", access="weights", paper="Chaturvedi2019")
class Mimic(BoundedAttack):
    """The features of another input, answered differently, by descent on the distance to them.

    It looks at a slice and never at the logits, so it fools whatever stands behind the slice, also a head that the
    attacker does not know. Each example mimics the nearest one in the data, at the slice, that is answered otherwise.
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "steps": 3}

    steps: int = setting("Gradient steps, from the radius down to a hundredth of it.", default=40, at_least=1)
    slice: str | None = setting(
        "The slice whose values are mimicked; without it, the last one before the logits.", default=None
    )

    def searches(self, model: Model, data: Data) -> list[Search]:
        """The descent towards the guide of each example."""
        victim = victim_of(model)
        place = self.slice if self.slice is not None else _last_place(victim)
        guides = data.first(_GUIDES) if len(data) > _GUIDES else data
        with victim.frozen(seed=0):
            features, theirs = (_features(victim, place, x) for x in (data.x, guides.x))
            answers = victim.predict(guides.x)
            if self.target is None:
                wanted = answers[None, :] != data.y.to(answers)[:, None]
            else:
                goals = _goals(victim, self.target, data)
                wanted = answers[None, :] == goals.to(answers)[:, None]
        apart = torch.cdist(features, theirs).masked_fill(~wanted, torch.inf)
        nearest = apart.argmin(dim=1)
        return [_Descent(self, place, theirs[nearest], wanted.any(dim=1))]


@dataclass(frozen=True)
class _Descent:
    """The inner loop: `features: (n, d)` are those of each example's guide; where there is none, nothing is done."""

    attack: Mimic
    place: str
    features: torch.Tensor = field(repr=False)
    guided: torch.Tensor = field(repr=False)
    title: ClassVar[str] = "Mimic"
    sees: ClassVar[type[Labels]] = Weights

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """Where the descent ends for each example, `(n, ...)`."""
        victim, x = victim_of(case.view.model), case.original
        goal, guided = (kept[case.index].to(x.device) for kept in (self.features, self.guided))
        allowed = guided.view(-1, *(1,) * (x.ndim - 1)) & (True if case.allowed is None else case.allowed)

        def likeness(moved: torch.Tensor) -> torch.Tensor:
            held = torch.where(allowed, moved, case.original)
            return -(_flat(victim, self.place, held) - goal).square().sum(dim=1)

        for step in range(self.attack.steps):
            size = case.ball.reach * cosine_length(step, self.attack.steps)
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                (slope,) = torch.autograd.grad(likeness(x).sum(), x)
            case.health.gradients += len(x)
            if step == 0:
                case.health.see_gradient(slope)
            x = case.inside(case.ball.step(x.detach(), torch.nan_to_num(slope), size, case.original))
        return x


def _last_place(victim: Model) -> str:
    """The last place before the logits at which the network can be cut."""
    for name in reversed(victim.slices()[:-1]):
        try:
            victim.slice(name)
        except SliceError:
            continue
        return name
    raise InputError(
        "Mimic needs a slice before the logits, and this network has none. Name one: --slice, or slice=… in Python."
    )


def _goals(victim: Model, target: Any, data: Data) -> torch.Tensor:
    if isinstance(target, torch.Tensor):
        return target
    if isinstance(target, str):
        return torch.full((len(data),), victim.class_index(target))
    goals: torch.Tensor = target.of(victim.logits(data.x))
    return goals


def _features(victim: Model, place: str, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([_flat(victim, place, part) for part in torch.split(victim.check_inputs(x), 256)])


def _flat(victim: Model, place: str, x: torch.Tensor) -> torch.Tensor:
    """The values at the place, `(n, d)`."""
    value: torch.Tensor = victim.slice(place).h(x).value
    return value.flatten(1)
