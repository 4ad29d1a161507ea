"""A model that amplifies bias less: a linear head with fewer features, or a sparse one (Leino2022, section 9.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from modelkeep.bias.amplification import largest_class, require_two_classes
from modelkeep.bias.head import Head, features_at, require_head, with_head
from modelkeep.bias.selection import Selection, remove, select_experts, select_parity
from modelkeep.bias.sparse import fit_sparse
from modelkeep.bias.standardised import fit_standardised
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelError, ResultError
from modelkeep.core.method import declaration_of, declare, setting
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
    `towards` (α in Leino2022) and `away` (β) are the numbers of features that speak for that class and against it, and
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


@dataclass(frozen=True, eq=False)
class _NewHead:
    """The weights `(classes, d)` and biases `(classes,)` of a linear head, the features that count, and the search."""

    weight: Array
    bias: Array
    kept: Array
    selection: Selection | None = None


@dataclass(frozen=True, kw_only=True)
class _Mitigation:
    """What the mitigations share: they give the last linear layer other weights, chosen on the training data."""

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Mitigated:
        """Make the model from the training `data`. The seed is for the intervals."""
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            head = require_head(model)
            _, features, logits = features_at(model, data, None)
            require_two_classes(data)
            new = self._choose(head, features.double().cpu().numpy(), data.y.numpy())
            network = with_head(model, head, torch.from_numpy(new.weight), torch.from_numpy(new.bias))
            _, again, new_logits = features_at(network, data, None)
            if not torch.equal(again, features):
                raise ModelError(
                    f"'{head.name}' shares its weights with an earlier layer, so they cannot be changed alone."
                )
            majority, found = largest_class(data), new.selection
            before, after = (found_logits.argmax(dim=1).cpu() for found_logits in (logits, new_logits))

            def excess(predicted: torch.Tensor) -> Estimate:
                more = (predicted == majority).double() - (data.y == majority).double()
                return Estimate.bootstrap(more.numpy(), seed)

            return Mitigated(
                provenance=provenance(),
                method=_name(self),
                head=head.name,
                majority=data.classes[majority],
                kept=torch.from_numpy(new.kept),
                towards=None if found is None else (found.alpha if majority == 1 else found.beta),
                away=None if found is None else (found.beta if majority == 1 else found.alpha),
                exact=None if found is None else found.exact,
                before=excess(before),
                after=excess(after),
                accuracy_before=Estimate.rate(int((before == data.y).sum()), len(data)),
                accuracy_after=Estimate.rate(int((after == data.y).sum()), len(data)),
                network=network,
            )

    def _choose(self, head: Head, features: Array, labels: Array) -> _NewHead:
        """Remove features: their weights become zero, and their mean goes into the bias."""
        weight, bias = _numbers(head)
        if len(weight) != 2:
            raise InputError(
                f"The method '{_name(self)}' is defined for two classes; the model has {len(weight)}. "
                "Take 'standardise' or 'l1', or make a model of one class against the rest."
            )
        # Of two logits, what decides is their difference: a linear classifier of class 1.
        kept, selection = self._keep(weight[1] - weight[0], float(bias[1] - bias[0]), features, labels)
        removed = [remove(row, float(b), features.mean(axis=0), kept) for row, b in zip(weight, bias, strict=True)]
        return _NewHead(np.stack([row for row, _ in removed]), np.array([b for _, b in removed]), kept, selection)

    def _keep(self, weights: Array, bias: float, features: Array, labels: Array) -> tuple[Array, Selection | None]:
        raise NotImplementedError


@declare("mitigation", "standardise", access="weights", paper="Leino2022, section 9.2")
class StandardiseMitigation(_Mitigation):
    """Fit the last linear layer anew on centred and scaled features, for any number of classes. Try it first."""

    strength: float = setting("The weight of the ℓ2 penalty against the mean loss.", default=1e-3, above=0)

    def _choose(self, head: Head, features: Array, labels: Array) -> _NewHead:
        weight, bias = fit_standardised(features, labels, len(head.weight), self.strength)
        return _NewHead(weight, bias, (weight != 0).any(axis=0))


@declare("mitigation", "experts", access="weights", paper="Leino2022, section 9.3")
class ExpertMitigation(_Mitigation):
    """Keep the features of the strongest influence in both directions."""

    def _keep(self, weights: Array, bias: float, features: Array, labels: Array) -> tuple[Array, Selection | None]:
        found = select_experts(weights, bias, features, labels)
        return found.keep, found


@declare("mitigation", "parity", access="weights", paper="Leino2022, section 9.3")
class ParityMitigation(_Mitigation):
    """Keep as many features towards one class as towards the other."""

    def _keep(self, weights: Array, bias: float, features: Array, labels: Array) -> tuple[Array, Selection | None]:
        return select_parity(weights, features, labels), None


@declare("mitigation", "l1", access="weights", paper="Leino2022, section 9.3")
class SparseMitigation(_Mitigation):
    """Fit the last linear layer anew with an ℓ1 penalty; it works for more than two classes, too."""

    strength: float = setting("The weight of the penalty against the mean loss.", default=1e-3, above=0)

    def _choose(self, head: Head, features: Array, labels: Array) -> _NewHead:
        weight, bias = fit_sparse(features, labels, len(head.weight), self.strength)
        return _NewHead(weight, bias, (weight != 0).any(axis=0))


def _name(method: _Mitigation) -> str:
    found = declaration_of(method)
    assert found is not None
    return found.name


def _numbers(head: Head) -> tuple[Array, Array]:
    """The weights `(classes, d)` and the biases `(classes,)`, which are 0 where the layer has none."""
    weight = head.weight.double().cpu().numpy()
    return weight, np.zeros(len(weight)) if head.bias is None else head.bias.double().cpu().numpy()
