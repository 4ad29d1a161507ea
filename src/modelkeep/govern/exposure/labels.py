"""Label leakage: the party before a cut sees dL/dz of each example and wants the labels that it was never sent.

Four attacks. `norm` (Li et al. 2021, "Label leakage and protection in two-party split learning") is for two classes:
examples of the rarer class have the longer gradients. `direction` looks at their cosines, because the gradients of one
class point one way. `find_surrogate` goes on from there: it fits a network of its own, and the labels, until its
gradients are the observed ones (Kariyappa and Qureshi 2021, "Gradient inversion attack"; 2023, "ExPLoit").
`closed_form` works at the logits, where the gradient softmax(z) − onehot(y) has its least entry at the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import normalize, one_hot

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, SliceError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.core.slices import Place
from modelkeep.govern.exposure.cut import Exposed, in_batches, split_known
from modelkeep.govern.exposure.surrogate import find_surrogate

LabelAttack = Literal["norm", "direction", "surrogate", "closed_form"]
ROUNDS = 30
SHARPNESS, SPREADING = 20.0, 0.99


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelLeak(Result, kind="label-leak"):
    """How many of the labels the gradients at the cut `slice` gave away.

    `majority` is the accuracy of always guessing the most frequent class. `known` labels per class were known before,
    and are not counted; where none were, each cluster was given the name that fits best, which flatters the attacker.
    """

    slice: str
    attack: LabelAttack
    accuracy: Estimate
    majority: float
    known: int

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("cut after", self.slice),
            ("attack", self.attack.replace("_", " ")),
            ("labels found", str(self.accuracy)),
            ("guessing the most frequent class", f"{self.majority:.3f}"),
            ("labels known before", f"{self.known} per class" if self.known else "none; clusters named at their best"),
        ]


def infer_labels(
    model: Model,
    data: Data,
    *,
    slice: str | Place,
    attack: LabelAttack = "direction",
    count: int = 512,
    known: int = 1,
    seed: int = 0,
) -> LabelLeak:
    """Find the labels of `count` examples of `data` from the gradients that come back over the cut after `slice`.

    Args:
        model: The model as it is now, in eval mode; gradients are those of each example's cross-entropy.
        data: Its examples with their labels.
        slice: After which place the model is cut; at the model's last place for `closed_form`.
        attack: See above.
        count: How many examples; those whose labels are known are among them.
        known: How many labels per class the attacker knows, to name what he found. 0 names it at its best.
        seed: Decides which examples, and the surrogate's start.
    """
    if attack not in ("norm", "direction", "surrogate", "closed_form"):
        raise bad_parameter("infer_labels", "attack", "'norm', 'direction', 'surrogate' or 'closed_form'", attack)
    if known < 0:
        raise bad_parameter("infer_labels", "known", "at least 0 labels per class", known)
    classes = len(model.classes)
    if attack == "norm" and classes != 2:
        raise InputError(f"The norm attack tells two classes apart. The model has {classes}: take 'direction'.")
    _, attacked = split_known(model, data, count, 0, seed)
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
        model.logits(attacked.x)  # refuses NaN, in the weights too
        exposed = Exposed.at(model, slice)
        x, y = model.check_inputs(attacked.x), attacked.y.to(model.device)
        gradients = torch.cat([exposed.gradients(*part) for part in in_batches(x, y)])
        hints = few_of_each(y, classes, known)
        if attack == "closed_form":
            if exposed.after.parameters or gradients.shape[1] != classes:
                raise SliceError(f"The closed form works at the logits, after the last place. Got '{slice}'.")
            guesses = at_the_logits(gradients)
        elif attack == "norm":
            guesses = by_norm(gradients)
        elif attack == "direction":
            guesses = by_direction(gradients, classes, y[hints], hints)
        else:
            with torch.no_grad():
                z = torch.cat([exposed.activations(part) for (part,) in in_batches(x)])
            start = by_direction(gradients, classes, y[hints], hints)
            guesses = find_surrogate(z, gradients, classes, start, hints, seed=seed)
        unknown = torch.ones(len(y), dtype=torch.bool, device=y.device)
        if attack != "closed_form":
            guesses = name_clusters(guesses, y, classes, hints)
            unknown[hints] = False
        right = (guesses == y)[unknown]
        return LabelLeak(
            provenance=provenance(),
            slice=str(exposed.place),
            attack=attack,
            accuracy=Estimate.rate(int(right.sum()), len(right)),
            majority=float(torch.bincount(y[unknown], minlength=classes).max()) / int(unknown.sum()),
            known=known,
        )


def few_of_each(y: torch.Tensor, classes: int, known: int) -> torch.Tensor:
    """The first `known` examples of each class, but never all examples."""
    found = torch.cat([torch.nonzero(y == label).flatten()[:known] for label in range(classes)])
    return found[: len(y) - 1]


def at_the_logits(gradients: torch.Tensor) -> torch.Tensor:
    """The labels from dL/dlogits = softmax − onehot `(n, classes)`: only the label's own entry is below 0.

    >>> at_the_logits(torch.tensor([[0.2, -0.5, 0.3]]))
    tensor([1])
    """
    return gradients.argmin(dim=1)


def by_norm(gradients: torch.Tensor) -> torch.Tensor:
    """Two clusters, 0 of short and 1 of long gradients: two means of the norms' logarithms."""
    norms = gradients.double().norm(dim=1).clamp_min(1e-300).log()
    low, high = norms.min(), norms.max()
    for _ in range(ROUNDS):
        long = norms > (low + high) / 2
        if long.all() or not long.any():
            break
        low, high = norms[~long].mean(), norms[long].mean()
    return torch.gt(norms, (low + high) / 2).long()


def by_direction(gradients: torch.Tensor, classes: int, labels: torch.Tensor, hints: torch.Tensor) -> torch.Tensor:
    """Clusters of gradients that point the same way; `hints` are the rows whose `labels` are known.

    Where some are, their labels spread along near directions (Zhou et al. 2004, "Learning with local and global
    consistency": F = (I − αS)⁻¹Y); where none are, by spherical k-means.
    """
    rows = normalize(gradients.double(), dim=1)
    if len(hints) == 0:
        return _k_means(rows, classes)
    near = torch.exp(-SHARPNESS * (2 - 2 * rows @ rows.T)).fill_diagonal_(0)
    scale = near.sum(dim=1).clamp_min(1e-300).rsqrt()
    identity = torch.eye(len(rows), dtype=rows.dtype, device=rows.device)
    given = torch.zeros(len(rows), classes, dtype=rows.dtype, device=rows.device)
    given[hints, labels] = 1.0
    found: torch.Tensor = torch.linalg.solve(identity - SPREADING * scale[:, None] * near * scale, given).argmax(dim=1)
    found[hints] = labels
    return found


def _k_means(rows: torch.Tensor, classes: int) -> torch.Tensor:
    """Clusters of unit vectors, begun at some that are far from each other."""
    chosen = [0]
    while len(chosen) < classes:
        chosen.append(int((rows @ rows[chosen].T).amax(dim=1).argmin()))
    centres = rows[chosen]
    for _ in range(ROUNDS):
        found = (rows @ centres.T).argmax(dim=1)
        sums = one_hot(found, classes).to(rows.dtype).T @ rows
        centres = torch.where(sums.norm(dim=1, keepdim=True) > 0, normalize(sums, dim=1), centres)
    return found


def name_clusters(clusters: torch.Tensor, y: torch.Tensor, classes: int, hints: torch.Tensor) -> torch.Tensor:
    """The clusters' names: the assignment that is right for most of the `hints`, or of all where there are none."""
    from scipy.optimize import linear_sum_assignment

    chosen = hints if len(hints) else torch.arange(len(y), device=y.device)
    counts = torch.zeros(classes, classes, dtype=torch.int64, device=y.device)
    counts.index_put_((clusters[chosen], y[chosen]), torch.ones_like(chosen), accumulate=True)
    _, names = linear_sum_assignment(-counts.cpu().numpy())
    return torch.as_tensor(names, device=y.device)[clusters]
