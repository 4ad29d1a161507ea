"""V-trace: what the value should have been, from experience that an older policy made (Espeholt2018, section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What to learn from an unroll; neither passes a gradient on."""

    values: Tensor  # (time, batch): v_s, which the value of x_s is moved to
    advantages: Tensor  # (time, batch): ρ_s (r_s + γ v_{s+1} − V(x_s)), the weight of ∇ log π(a_s | x_s)


@torch.no_grad()
def vtrace(
    log_ratios: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    values: Tensor,
    last_value: Tensor,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> Targets:
    """Equation (1), by the recursion of its remark 1.

        v_s = V(x_s) + Σ_t γ^{t−s} (Π_{i=s}^{t−1} c_i) δ_t,    δ_t = ρ_t (r_t + γ V(x_{t+1}) − V(x_t)),

    with ρ_t = min(ρ̄, π/μ) and c_i = min(c̄, π/μ): ρ̄ decides which policy's value it is, c̄ only how fast it is found.

    Args:
        log_ratios: `(time, batch)`, log π(a|x) − log μ(a|x): the learner's policy π over the one μ that acted.
        rewards: `(time, batch)`.
        discounts: `(time, batch)`, γ; 0 where the step ended the episode.
        values: `(time, batch)`, V(x_s) by the learner.
        last_value: `(batch,)`, V of what was observed after the last step.
        rho_bar: ρ̄.
        c_bar: c̄, at most ρ̄.

    On-policy it is the n-step Bellman target, here of two steps with γ = ½:

    >>> one = torch.ones(2, 1)
    >>> vtrace(0 * one, one, one / 2, 3 * one, torch.tensor([8.0])).values.flatten()  # 1 + ½·1 + ¼·8, 1 + ½·8
    tensor([3.5000, 5.0000])
    """
    ratios = log_ratios.exp()
    rho, c = ratios.clamp(max=rho_bar), ratios.clamp(max=c_bar)
    next_values = torch.cat([values[1:], last_value[None]])
    deltas = rho * (rewards + discounts * next_values - values)
    corrections = torch.empty_like(values)  # v_s − V(x_s)
    correction = torch.zeros_like(last_value)
    for s in reversed(range(len(values))):
        correction = deltas[s] + discounts[s] * c[s] * correction
        corrections[s] = correction
    targets = values + corrections
    next_targets = torch.cat([targets[1:], last_value[None]])
    return Targets(targets, rho * (rewards + discounts * next_targets - values))
