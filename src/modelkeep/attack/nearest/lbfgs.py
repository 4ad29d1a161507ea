"""L-BFGS: the first attack of all, c·|r|² + loss in the box (Szegedy et al. 2013; thesis 004, eq. 2.9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.nn.functional import cross_entropy

from modelkeep.attack.case import Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.nearest.boundary import back_to_the_boundary
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball


def lbfgs(
    model: Model,
    data: Data,
    *,
    steps: int = 20,
    bisections: int = 8,
    initial_constant: float = 1.0,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Minimise `c·|r|²` + the cross-entropy of the wanted class, within the bounds, for the largest c that still works.

    Of historical interest, and slow: scipy's L-BFGS-B works on one example at a time. `cw` finds nearer points sooner.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        steps: Iterations of L-BFGS-B for each c.
        bisections: How many c are tried.
        initial_constant: The first c; it is divided by ten until an adversarial example is found, then bisected.
        target: The class that the answer should become; without it, the likeliest wrong class of each example.
        mask: True where the input may change; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once; here, only in the verification.
        seed: Nothing is drawn; it goes into the result.
    """
    return carry_out(
        model,
        data,
        [LBFGS(steps, bisections, initial_constant)],
        attack="L-BFGS",
        ball=Ball("l2", None, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class LBFGS:
    """The inner loop; see `lbfgs`."""

    steps: int = 20
    bisections: int = 8
    constant: float = 1.0
    name: ClassVar[str] = "L-BFGS"
    sees: ClassVar[type[Weights]] = Weights

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("bisections", self.bisections)):
            if value < 1:
                raise bad_parameter("lbfgs", name, "at least 1", value)
        if not self.constant > 0:
            raise bad_parameter("lbfgs", "initial_constant", "a number above 0", self.constant)

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
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
        constant, works, fails = self.constant, 0.0, torch.inf
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
            x = torch.from_numpy(values).to(original).view_as(original)
            slope, logits = case.gradient(x, lambda logits: cross_entropy(logits, wanted, reduction="none"))
            loss = float(cross_entropy(logits, wanted)) + constant * float((x - original).square().sum())
            return loss, (slope + 2 * constant * (x - original)).flatten().double().cpu().numpy()

        low, high = (None, None) if case.ball.bounds is None else case.ball.bounds
        fixed = [True] * len(flat) if case.allowed is None else case.allowed.flatten().tolist()
        bounds = [(low, high) if may else (value, value) for may, value in zip(fixed, flat, strict=True)]
        end = minimize(objective, flat, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": self.steps})
        return case.inside(torch.from_numpy(end.x).to(original).view_as(original))
