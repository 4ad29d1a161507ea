"""Lemma 1 of Tang2024 with numbers: how far perturbed answers keep a thief from the parameters.

For softmax regression everything in the lemma is known. As many queries as a logit has parameters determine the
weights: the thief solves log Ỹ = XW (up to a constant per row), and then answers its queries exactly as it was
answered, which is the lemma's premise. The mean cross entropy is M-smooth with M = λ_max(XᵀX)/(2n), because
diag(p) − ppᵀ has no eigenvalue above ½.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.results import Result, measured
from modelkeep.extract.target import Target
from modelkeep.guard.grid import ONE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class Distance(Result, kind="distance"):
    """Both sides of equation (4): the squared distance that a thief kept from the owner's weights, and its bound."""

    schema: ClassVar[int] = 1
    squared_distance: float  # ‖w̃_s − w_t‖², both centred over the classes, which makes it smallest
    bound: float  # 2/M · [L(Ỹ, Y) − L(Y, Y)]
    smoothness: float  # M
    excess_loss: float  # L(Ỹ, Y) − L(Y, Y), the mean KL divergence of the answers from the predictions
    squared_norm: float  # ‖w_t‖², to compare with
    queries: int

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("distance² to the parameters", f"{self.squared_distance:.3g} (their length²: {self.squared_norm:.3g})"),
            ("lemma 1's bound", f"{self.bound:.3g}"),
            ("smoothness M", f"{self.smoothness:.3g}"),
            ("excess loss", f"{self.excess_loss:.3g}"),
            ("queries", str(self.queries)),
        ]

    def draw(self) -> Figure:
        """The distance reached beside the bound, on a logarithmic scale."""
        drawn = plots.figure(height=2.2)
        ax = plots.axes(drawn, "Lemma 1", "squared distance to the owner's parameters", grid="x")
        sides = {"reached": self.squared_distance, "bound": self.bound}
        for row, value in enumerate(sides.values()):
            ax.barh(row, max(value, 1e-30), color=plots.PALETTE[row], height=0.6)
        ax.set_xscale("log")
        ax.set_yticks(range(len(sides)), list(sides), color=plots.INK)
        ax.invert_yaxis()
        return drawn


def lemma_one(target: Target, owner: Model, queries: torch.Tensor) -> Distance:
    """Steal a softmax regression from what `target` answers, and set lemma 1's bound beside how near that came.

    Args:
        target: Who is asked: the owner's model itself, or the same behind a defence.
        owner: The model, one linear layer.
        queries: `(width + 1, *input_shape)` in general position: they determine the weights exactly.
    """
    layers = [part for part in owner.module.modules() if isinstance(part, nn.Linear)]
    if len(layers) != 1 or any(isinstance(part, nn.ReLU) for part in owner.module.modules()):
        raise InputError(f"Lemma 1's M is known for softmax regression: one linear layer. Got {len(layers)} of them.")
    width = layers[0].in_features
    if len(queries) != width + 1:
        raise InputError(
            f"{width + 1} queries, one more than inputs, determine the weights exactly. Got {len(queries)}."
        )
    with measured(0, model=owner.fingerprint()) as provenance:
        # No softmax gives 0, so the thief reads one as half of the smallest confidence that can be answered.
        heard = target.probs(queries).double().cpu().clamp_min(0.5 / ONE)
        answers = heard / heard.sum(dim=1, keepdim=True)
        clean = owner.logits(queries).double().cpu().log_softmax(dim=1)
        seen = owner.preprocess(owner.check_inputs(queries)).flatten(1).double().cpu()
        design = torch.cat([seen, torch.ones(len(seen), 1)], dim=1)
        stolen = torch.linalg.solve(design, _centre(answers.log()))  # (width + 1, classes)
        bias = layers[0].bias
        weights = [layers[0].weight.T, torch.zeros(1, len(owner.classes)) if bias is None else bias[None]]
        true = _centre(torch.cat([w.detach().double().cpu() for w in weights]))
        smoothness = float(torch.linalg.eigvalsh(design.T @ design)[-1]) / (2 * len(design))
        excess = float((clean.exp() * (clean - answers.log())).sum(dim=1).mean())
    return Distance(
        provenance=provenance(),
        squared_distance=float((stolen - true).square().sum()),
        bound=2 / smoothness * excess,
        smoothness=smoothness,
        excess_loss=excess,
        squared_norm=float(true.square().sum()),
        queries=len(queries),
    )


def _centre(values: torch.Tensor) -> torch.Tensor:
    return values - values.mean(dim=1, keepdim=True)
