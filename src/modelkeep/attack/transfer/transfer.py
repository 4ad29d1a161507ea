"""Transfer: attack a model through a proxy that learns its answers (Saha2020, section 2.1.2)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import torch

from modelkeep.attack.case import Case
from modelkeep.attack.checkpoint import resume_from
from modelkeep.attack.frame import carry_out
from modelkeep.attack.health import Health
from modelkeep.attack.result import Attacked
from modelkeep.attack.transfer.momentum import Momentum
from modelkeep.attack.transfer.proxy import RECIPE, Architecture, ask, judge_proxy, train_proxy
from modelkeep.attack.transfer.proxy_set import looks_original
from modelkeep.core.access import Labels, Scores, Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, Remedy
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, measured
from modelkeep.training import Recipe


@dataclass(frozen=True, kw_only=True, eq=False)
class Transferred(Attacked, kind="transferred"):
    """What an attack through a proxy found, and how each part of it went.

    `questions` were put to the target, and the proxy learnt from `chosen` of the answers. `agreement` is the share of
    held-out questions on which both give the same label, `proxy_success` the share of attacked examples that fool the
    proxy, and `transfer_rate` the share of those that fool the target too. `queries` counts the questions and
    the found inputs that were tried on the target; the `gradients` are all the proxy's.
    """

    answers: str
    questions: int
    chosen: int
    agreement: Estimate
    proxy_success: Estimate | None
    transfer_rate: Estimate | None

    def rows(self) -> list[tuple[str, str]]:
        rows = dict(super().rows())
        health = rows.pop("health")
        return [
            *rows.items(),
            ("proxy", f"learnt from {self.answers} of {self.chosen:,} of {self.questions:,} questions"),
            ("agreement with the target", str(self.agreement)),
            ("success on the proxy", "nothing to attack" if self.proxy_success is None else str(self.proxy_success)),
            ("of which transfer", "–" if self.transfer_rate is None else str(self.transfer_rate)),
            ("health", health),
        ]


@declare("attack", "transfer", access="scores", paper="Saha2020, eq. 2.7")
class Transfer(Momentum):
    """The momentum attack on a proxy that learns the model's answers, tried on the model.

    Trains a proxy on the model's answers, attacks the proxy with its gradients, and tries the found inputs on the
    model. The model itself is only asked: its weights and gradients are not used.
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "steps": 3, "recipe": Recipe(steps=3)}

    questions: Data | None = setting(
        "Inputs to ask the model about; their labels are not used. Without them, the data.", default=None
    )
    answers: Literal["scores", "labels"] = setting(
        "What the model gives: probabilities or labels.", default="scores", choices=("scores", "labels")
    )
    discriminate: bool = setting(
        "Learn only from questions whose answers look like those to the model's training data (Saha2020, eq. 2.8), "
        "for questions that come from anywhere. Needs scores.",
        default=False,
    )
    proxy: Architecture | Model | None = setting(
        "How to build the proxy, as in modelkeep.zoo.architectures; or a trained model, to be taken as it is.",
        default=None,
    )
    recipe: Recipe = setting("How the proxy is trained.", default=RECIPE)
    budget: int | None = setting(
        "The most queries that the questions may cost; more are refused before any is asked.",
        default=None,
        at_least=0,
    )

    def __post_init__(self) -> None:
        if self.discriminate and self.answers == "labels":
            raise InputError(
                "The discriminator looks at scores:",
                remedy=Remedy("give answers='scores' with discriminate.", "give --answers scores with --discriminate."),
            )

    @property
    def title(self) -> str:
        """What results call it."""
        return "transfer"

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Transferred:
        """Train the proxy, attack it, and try what was found on the model."""
        model.require_fit(data)
        asked = data if self.questions is None else self.questions
        if model.bounds is not None and not torch.equal(asked.x.clamp(*model.bounds), asked.x):
            raise InputError(
                f"The model takes values in {model.bounds}, but the questions of '{asked.name}' span "
                f"[{float(asked.x.min())}, {float(asked.x.max())}]. Are they in the owner's units, or normalised?"
            )
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            view = (Scores if self.answers == "scores" else Labels)(model, budget=self.budget)
            given = ask(view, asked.x)
            chosen = torch.arange(len(asked))
            if self.discriminate:
                chosen = torch.nonzero(looks_original(given, seed) > 0.5).flatten()
            learnt, given = asked.x[chosen], given[chosen]
            if isinstance(self.proxy, Model):
                self.proxy.require_fit(data)
                found = judge_proxy(self.proxy, learnt, given.argmax(dim=1))
            else:
                found = train_proxy(view, learnt, given, architecture=self.proxy, recipe=self.recipe, seed=seed)
            through = _Through(self, found.model, *torch.zeros(2, len(data), dtype=torch.bool))
            # The search remembers what it tried, and a checkpoint would not: it is done anew.
            with found.model.frozen(seed), resume_from(None):
                attacked = carry_out(
                    model,
                    data,
                    [through],
                    attack=self.title,
                    ball=self.ball(model),
                    target=self.target,
                    mask=self.mask,
                    batch_size=self.batch_size,
                    draws=self.draws,
                    seed=seed,
                )
            tried, fooled, won = through.tried, through.fooled, through.tried & attacked.success
            values = {each.name: getattr(attacked, each.name) for each in fields(attacked)}
            on_proxy = (f"on the proxy: {note}" for note in through.health.notes())
            values |= {
                "provenance": provenance(),
                "health": (*attacked.health, *found.notes(), *on_proxy),
                "queries": view.queries + int(tried.sum()),
                "gradients": through.health.gradients,
            }
            return Transferred(
                **values,
                answers=self.answers,
                questions=len(asked),
                chosen=len(chosen),
                agreement=found.agreement,
                proxy_success=Estimate.rate(int(fooled.sum()), int(tried.sum())) if tried.any() else None,
                transfer_rate=Estimate.rate(int((won & fooled).sum()), int(fooled.sum())) if fooled.any() else None,
            )


@dataclass(frozen=True)
class _Through:
    """The inner loop: the attack on the proxy. Notes which examples were `tried`, and which of them `fooled` it."""

    attack: Momentum
    proxy: Model
    tried: torch.Tensor
    fooled: torch.Tensor
    health: Health = field(default_factory=Health)
    title: ClassVar[str] = "transfer"
    sees: ClassVar[type[Labels]] = Labels

    def search(self, case: Case[Labels], /) -> torch.Tensor:
        """What the attack on the proxy found for each example, `(n, ...)`."""
        on_proxy = Case(
            view=Weights(self.proxy),
            original=case.original,
            goal=case.goal,
            targeted=case.targeted,
            ball=case.ball,
            allowed=case.allowed,
            generator=case.generator,
            index=case.index,
            health=self.health,
        )
        found = self.attack.search(on_proxy)
        self.tried[case.index] = True
        self.fooled[case.index] = case.answered(on_proxy.view.labels(found)).cpu()
        return found
