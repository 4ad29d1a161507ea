"""Transfer: attack a model that one can only ask, through a proxy that learns its answers (thesis 004, 2.1.2)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

import torch

from modelkeep.attack.case import Case
from modelkeep.attack.frame import carry_out
from modelkeep.attack.health import Health
from modelkeep.attack.keeper import kept
from modelkeep.attack.result import Attacked
from modelkeep.attack.transfer.momentum import Momentum
from modelkeep.attack.transfer.proxy import RECIPE, Architecture, Proxy, ask, judged, train_proxy
from modelkeep.attack.transfer.proxy_set import looks_original
from modelkeep.core.access import Labels, Scores, Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm
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


def transfer(
    model: Model,
    data: Data,
    *,
    questions: Data | None = None,
    answers: Literal["scores", "labels"] = "scores",
    discriminate: bool = False,
    proxy: Architecture | Model | None = None,
    recipe: Recipe = RECIPE,
    norm: Norm = "linf",
    radius: float,
    steps: int = 20,
    step_size: float | None = None,
    momentum: float = 1.0,
    diversity: float = 0.0,
    target: str | None = None,
    mask: torch.Tensor | None = None,
    budget: int | None = None,
    batch_size: int = 256,
    seed: int,
) -> Transferred:
    """Train a proxy on the model's answers, attack the proxy with its gradients, and try the found inputs on the model.

    The model itself is only asked: nobody looks at its weights or gradients.

    Args:
        model: The target.
        data: Examples to attack, with their true labels.
        questions: Inputs to ask the target about; their labels are not used. Without them, `data`.
        answers: What the target gives: "scores" (probabilities) or "labels".
        discriminate: Learn only from questions whose answers look like those to the target's training data, for
            questions that come from anywhere (equation 2.8; see `proxy_set`). Needs scores.
        proxy: How to build the proxy, as in `modelkeep.zoo.architectures`; or a trained model, to be taken as it is.
        recipe: How the proxy is trained.
        norm: "linf", "l2" or "l1".
        radius: The largest allowed distance, in the owner's units.
        steps: Gradient steps on the proxy.
        step_size: Length of a step; 2.5 · radius / steps where it is not given.
        momentum: How much of the last direction each step keeps.
        diversity: How often, from 0 to 1, a step looks through resized images. The paper has 0.5, which helps on MNIST
            too; on 8×8 digits, where a pixel is a stroke, it hurts.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change; it must broadcast to the inputs' shape.
        budget: The most queries that the questions may cost; more are refused before any is asked.
        batch_size: Examples that are attacked at once.
        seed: For the proxy, its training and the attack.
    """
    if answers not in ("scores", "labels"):
        raise bad_parameter("transfer", "answers", "'scores' or 'labels'", answers)
    if discriminate and answers == "labels":
        raise InputError("The discriminator of equation 2.8 looks at scores: give answers='scores' with discriminate.")
    model.require_fit(data)
    asked = data if questions is None else questions
    if model.bounds is not None and not torch.equal(asked.x.clamp(*model.bounds), asked.x):
        raise InputError(
            f"The model takes values in {model.bounds}, but the questions of '{asked.name}' span "
            f"[{float(asked.x.min())}, {float(asked.x.max())}]. Are they in the owner's units, or normalised?"
        )
    inner = Momentum(steps, step_size, momentum, diversity)
    ball = Ball(norm, radius, model.bounds)
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
        view = (Scores if answers == "scores" else Labels)(model, budget=budget)
        given = ask(view, asked.x)
        chosen = torch.arange(len(asked))
        if discriminate:
            chosen = torch.nonzero(looks_original(given, seed) > 0.5).flatten()
        learnt, given = asked.x[chosen], given[chosen]
        if isinstance(proxy, Model):
            proxy.require_fit(data)
            found = judged(proxy, learnt, given.argmax(dim=1))
        else:
            found = train_proxy(view, learnt, given, architecture=proxy, recipe=recipe, seed=seed)
        search = Through(found, inner, *torch.zeros(2, len(data), dtype=torch.bool))
        # The search remembers what it tried, which a kept attack would not: it is done anew.
        with found.model.frozen(seed), kept(None):
            attacked = carry_out(
                model,
                data,
                [search],
                attack="transfer",
                ball=ball,
                target=target,
                mask=mask,
                batch_size=batch_size,
                seed=seed,
            )
        tried, fooled, won = search.tried, search.fooled, search.tried & attacked.success
        values = {each.name: getattr(attacked, each.name) for each in fields(attacked)}
        values |= {
            "provenance": provenance(),
            "health": (*attacked.health, *found.notes(), *(f"on the proxy: {note}" for note in search.health.notes())),
            "queries": view.queries + int(tried.sum()),
            "gradients": search.health.gradients,
        }
        return Transferred(
            **values,
            answers=answers,
            questions=len(asked),
            chosen=len(chosen),
            agreement=found.agreement,
            proxy_success=Estimate.rate(int(fooled.sum()), int(tried.sum())) if tried.any() else None,
            transfer_rate=Estimate.rate(int((won & fooled).sum()), int(fooled.sum())) if fooled.any() else None,
        )


@dataclass(frozen=True)
class Through:
    """The inner loop: `inner` on the proxy. Notes which examples were `tried`, and which of them `fooled` the proxy."""

    proxy: Proxy
    inner: Momentum
    tried: torch.Tensor
    fooled: torch.Tensor
    health: Health = field(default_factory=Health)
    name: ClassVar[str] = "transfer"
    sees: ClassVar[type[Labels]] = Labels

    def __call__(self, case: Case[Labels]) -> torch.Tensor:
        """What the attack on the proxy found for each example, `(n, ...)`."""
        on_proxy = Case(
            view=Weights(self.proxy.model),
            original=case.original,
            goal=case.goal,
            targeted=case.targeted,
            ball=case.ball,
            allowed=case.allowed,
            generator=case.generator,
            index=case.index,
            health=self.health,
        )
        found = self.inner(on_proxy)
        self.tried[case.index] = True
        self.fooled[case.index] = case.answered(on_proxy.view.labels(found)).cpu()
        return found
