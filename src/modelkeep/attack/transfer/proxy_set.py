"""Proxy set: of any inputs, those that a target answers as it answers its training data (Saha2020, eq. 2.8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate, Result, Tensor, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxySet(Result, kind="proxy-set"):
    """Which candidates look like the target's training data: `chosen: (n,)`, where D(f(x̃)) > ½.

    `original: (n,)` is D's probability and `surest: (n,)` the probability that the target gave to its answer.
    `share` is the share of the candidates that was chosen, and `queries` what it cost to ask.
    """

    original: Tensor = field(repr=False)
    surest: Tensor = field(repr=False)
    share: Estimate
    queries: int

    @property
    def chosen(self) -> torch.Tensor:
        """X' = {x̃ : D(f(x̃)) = 1}, as a mask over the candidates."""
        return self.original > 0.5

    def rows(self) -> list[tuple[str, str]]:
        rows = [("candidates chosen", str(self.share)), ("queries", f"{self.queries:,}")]
        for name, part in (("chosen", self.surest[self.chosen]), ("others", self.surest[~self.chosen])):
            if len(part):
                rows.append((f"median top probability, {name}", f"{float(part.median()):.3f}"))
        return rows

    def draw(self) -> Figure:
        """How sure the target was of the chosen candidates and of the others."""
        from modelkeep.core import plots

        drawn = plots.figure()
        ax = plots.axes(drawn, "", "probability of the target's answer", "candidates")
        parts = [self.surest[mask].numpy() for mask in (self.chosen, ~self.chosen)]
        ax.hist(parts, bins=20, stacked=True, color=plots.PALETTE[:2], label=["chosen", "others"])
        plots.legend(drawn, ax)
        return drawn


def proxy_set(view: Scores, candidates: Data, *, seed: int = 0) -> ProxySet:
    """Choose the candidates that look like the target's training data by its answers to them (Saha2020, eq. 2.8).

    That data is unknown, so D is unsupervised: a mixture of two Gaussians over the sorted log-probabilities of the
    answers. The surer of the two are the answers to what the target was trained on: a target is surest of what it
    knows. Where all the candidates are foreign, D still calls the surest of them original; look at `draw`.

    >>> from torch import nn
    >>> from modelkeep import Model
    >>> target = Model(nn.Linear(4, 3), input_shape=(4,), classes=3)
    >>> candidates = Data(torch.rand(50, 4), torch.zeros(50, dtype=torch.int64), target.classes)
    >>> found = proxy_set(Scores(target), candidates, seed=0)
    >>> len(candidates.take(found.chosen.nonzero().flatten())) == found.chosen.sum(), found.queries
    (tensor(True), 50)
    """
    with measured(seed, None, candidates.fingerprint()) as provenance:
        answers = view.probs(candidates.x).cpu()
        original = looks_original(answers, seed)
        return ProxySet(
            provenance=provenance(),
            original=original,
            surest=answers.amax(dim=1),
            share=Estimate.rate(int((original > 0.5).sum()), len(original)),
            queries=len(answers),
        )


def looks_original(answers: torch.Tensor, seed: int) -> torch.Tensor:
    """D: the probability `(n,)` that answers `(n, classes)` are to inputs like the target's training data."""
    from sklearn.mixture import GaussianMixture

    if len(answers) < 10:
        raise InputError(f"A discriminator needs at least 10 candidates to see two kinds of them. Got {len(answers)}.")
    # Sorted: what counts is how sure the target is, and not of what. Below 1e-6 only the overconfidence differs.
    seen = answers.double().clamp_min(1e-6).log().sort(dim=1, descending=True).values.numpy()
    mixture = GaussianMixture(2, covariance_type="diag", reg_covar=1e-3, n_init=3, random_state=seed).fit(seen)
    surer = int(mixture.means_[:, 0].argmax())
    return torch.from_numpy(mixture.predict_proba(seen)[:, surer]).float()
