"""A model that amplifies bias less: features removed from, or a sparse fit of, its linear head (thesis 002, 9.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from modelkeep.bias.amplification import largest_class, require_two_classes
from modelkeep.bias.head import Head, features_at, require_head, with_head
from modelkeep.bias.selection import experts, parity, remove
from modelkeep.bias.sparse import fit_sparse
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelError, ResultError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Mitigated(Result, kind="mitigated"):
    """The mitigated model, and what was measured on the data that it was chosen on (measure it on others, too).

    `model` is a network of the same architecture with other weights in its linear layer `head`, and `kept: (d,)` says
    which of its features still count. `before` and `after` are E[F(x) - y] for the `majority` class. With experts,
    `towards` (the thesis' α) and `away` (β) are the numbers of features that speak for that class and against it, and
    `exact` says whether all pairs of such numbers were tried.
    """

    method: str
    head: str
    majority: str
    kept: Tensor = field(repr=False)
    towards: int | None
    away: int | None
    exact: bool | None
    before: Estimate
    after: Estimate
    accuracy_before: Estimate
    accuracy_after: Estimate
    network: Annotated[Any, Field(exclude=True)] = field(default=None, repr=False)

    @property
    def model(self) -> Model:
        """The mitigated model, ready to be asked and saved."""
        if not isinstance(self.network, Model):
            raise ResultError("A result that was read from JSON holds no network. Save `model` with `model.save`.")
        return self.network

    def rows(self) -> list[tuple[str, str]]:
        kept = f"{int(self.kept.sum())} of {len(self.kept)}"
        if self.towards is not None:
            kept += f": {self.towards} towards '{self.majority}', {self.away} away from it"
            kept += "" if self.exact else " (searched in geometric steps)"
        return [
            ("method", f"{self.method} at {self.head or 'the linear layer'}"),
            ("features kept", kept),
            ("amplification before", str(self.before)),
            ("amplification after", str(self.after)),
            ("accuracy before", str(self.accuracy_before)),
            ("accuracy after", str(self.accuracy_after)),
        ]

    def draw(self) -> Figure:
        """The amplification before and after."""
        shown = {"before": self.before, "after": self.after}
        return plots.bars(shown, title=self.method, x_label=f"predicted in excess of '{self.majority}'")


def mitigate(
    model: Model,
    data: Data,
    *,
    method: Literal["experts", "parity", "l1"] = "experts",
    strength: float = 1e-3,
    seed: int,
) -> Mitigated:
    """Make a model of two classes that amplifies bias less, by the features that its last linear layer sees.

    "experts" keeps the features of the strongest influence in both directions, "parity" as many towards one class as
    towards the other (see `modelkeep.bias.selection`); both set the weights of all other features to zero and put their
    mean into the bias. "l1" fits the linear layer anew with an ℓ1 penalty, and works for more than two classes, too.

    Args:
        model: A network that ends in a plain linear layer; it is left as it was.
        data: The training data.
        method: See above.
        strength: The weight of the ℓ1 penalty against the mean loss; the other methods do not use it.
        seed: For the intervals.
    """
    if method not in ("experts", "parity", "l1"):
        raise bad_parameter("mitigate", "method", "'experts', 'parity' or 'l1'", method)
    if not strength > 0:
        raise bad_parameter("mitigate", "strength", "a number above 0", strength)
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
        head = require_head(model)
        _, features, logits = features_at(model, data, None)
        require_two_classes(data)
        if method != "l1" and len(model.classes) != 2:
            raise InputError(
                f"The method '{method}' is defined for two classes; the model has {len(model.classes)}. "
                "Take method='l1', or make a model of one class against the rest."
            )
        z, labels = features.double().cpu().numpy(), data.y.numpy()
        found = None
        if method == "l1":
            weight, bias = fit_sparse(z, labels, len(model.classes), strength)
            kept = (weight != 0).any(axis=0)
        else:
            weight, bias = _numbers(head)
            # Of two logits, what decides is their difference: a linear classifier of class 1.
            difference = weight[1] - weight[0]
            if method == "experts":
                found = experts(difference, float(bias[1] - bias[0]), z, labels)
            kept = parity(difference, z, labels) if found is None else found.keep
            removed = [remove(row, float(b), z.mean(axis=0), kept) for row, b in zip(weight, bias, strict=True)]
            weight, bias = np.stack([row for row, _ in removed]), np.array([b for _, b in removed])
        network = with_head(model, head, torch.from_numpy(weight), torch.from_numpy(bias))
        _, again, new_logits = features_at(network, data, None)
        if not torch.equal(again, features):
            raise ModelError(
                f"'{head.name}' shares its weights with an earlier layer, so they cannot be changed alone."
            )
        majority = largest_class(data)
        before, after = (found_logits.argmax(dim=1).cpu() for found_logits in (logits, new_logits))

        def excess(predicted: torch.Tensor) -> Estimate:
            return Estimate.bootstrap(((predicted == majority).double() - (data.y == majority).double()).numpy(), seed)

        return Mitigated(
            provenance=provenance(),
            method=method,
            head=head.name,
            majority=data.classes[majority],
            kept=torch.from_numpy(kept),
            towards=None if found is None else (found.alpha if majority == 1 else found.beta),
            away=None if found is None else (found.beta if majority == 1 else found.alpha),
            exact=None if found is None else found.exact,
            before=excess(before),
            after=excess(after),
            accuracy_before=Estimate.rate(int((before == data.y).sum()), len(data)),
            accuracy_after=Estimate.rate(int((after == data.y).sum()), len(data)),
            network=network,
        )


def _numbers(head: Head) -> tuple[Array, Array]:
    """The weights `(classes, d)` and the biases `(classes,)`, which are 0 where the layer has none."""
    weight = head.weight.double().cpu().numpy()
    return weight, np.zeros(len(weight)) if head.bias is None else head.bias.double().cpu().numpy()
