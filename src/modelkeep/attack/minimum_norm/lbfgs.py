"""L-BFGS: the first attack of all, c·|r|² + loss in the box (Szegedy2014; Saha2020, eq. 2.9)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.nn.functional import cross_entropy

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Case
from modelkeep.attack.minimum_norm.boundary import back_to_the_boundary
from modelkeep.core.access import Weights
from modelkeep.core.method import declare, setting
from modelkeep.core.norms import AnyNorm


@declare("attack", "lbfgs", access="weights", paper="Szegedy2014; Saha2020, eq. 2.9")
class LBFGS(Attack):
    """The smallest change by L-BFGS; the first of all attacks, and slow.

    Minimises `c·|r|²` + the cross-entropy of the wanted class, within the bounds, for the largest c that still works.
    Of historical interest: scipy's L-BFGS-B works on one example at a time, and `CW` finds nearer points sooner.
    Without a target it goes to the likeliest wrong class of each example.
    """

    cheap: ClassVar[dict[str, Any]] = {"steps": 2, "bisections": 2}

    norm: AnyNorm = norm_setting("l2")
    steps: int = setting("Iterations of L-BFGS-B for each c.", default=20, at_least=1)
    bisections: int = setting("How many c are tried.", default=8, at_least=1)
    initial_constant: float = setting(
        "The first c; it is divided by ten until an adversarial example is found, then bisected.",
        default=1.0,
        above=0,
    )

    @property
    def title(self) -> str:
        """As the papers call it."""
        return "L-BFGS"

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The nearest point that was found for each example, `(n, ...)`."""
        slope, logits = case.gradient(case.original, case.gain)
        case.health.see_gradient(slope)
        likeliest = logits.scatter(1, case.goal[:, None], -torch.inf).argmax(dim=1)
        wanted = case.goal if case.targeted else likeliest
        positions = torch.arange(len(case), device=case.original.device)
        found = torch.cat([self._one(case.part(at[None]), wanted[at][None]) for at in positions])
        return back_to_the_boundary(case, found)

    def _one(self, case: Case[Weights], wanted: torch.Tensor) -> torch.Tensor:
        """The nearest point for the only example of the case, by bisection over c."""
        best, distance = case.original, torch.inf
        constant, works, fails = self.initial_constant, 0.0, torch.inf
        for _ in range(self.bisections):
            x = self._minimise(case, wanted, constant)
            with torch.no_grad():
                reached = bool(case.reached(case.view.forward(x)))
            length = float((x - case.original).norm())
            if reached and length < distance:
                best, distance = x, length
            works, fails = (max(works, constant), fails) if reached else (works, min(fails, constant))
            if works == 0:
                constant /= 10
            else:
                constant = 10 * constant if fails == torch.inf else (works * fails) ** 0.5
        return best

    def _minimise(self, case: Case[Weights], wanted: torch.Tensor, constant: float) -> torch.Tensor:
        """Where L-BFGS-B ends from the original."""
        from scipy.optimize import minimize

        original = case.original
        flat = original.flatten().double().cpu().numpy()

        def objective(values: Any) -> tuple[float, Any]:
            x = torch.from_numpy(values.copy()).to(original).view_as(original)
            slope, logits = case.gradient(x, lambda logits: cross_entropy(logits, wanted, reduction="none"))
            loss = float(cross_entropy(logits, wanted)) + constant * float((x - original).square().sum())
            return loss, (slope + 2 * constant * (x - original)).flatten().double().cpu().numpy()

        low, high = (None, None) if case.ball.bounds is None else case.ball.bounds
        fixed = [True] * len(flat) if case.allowed is None else case.allowed.flatten().tolist()
        bounds = [(low, high) if may else (value, value) for may, value in zip(fixed, flat, strict=True)]
        end = minimize(objective, flat, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": self.steps})
        return case.inside(torch.from_numpy(end.x.copy()).to(original).view_as(original))
