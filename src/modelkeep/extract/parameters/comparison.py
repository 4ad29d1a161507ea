"""How near a stolen network came to the owner's: parameters after matching, answers on the owner's inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import nn

from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.extract.parameters.last_layer import Network
from modelkeep.extract.parameters.oracle import Array
from modelkeep.extract.parameters.theft import Stolen

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class Recovery(Result, kind="recovery"):
    """A stolen network beside the owner's, both in one form: units of length one, classes centred, units matched."""

    schema: ClassVar[int] = 1
    units: int  # of the owner's network
    found: int
    queries: int
    queries_per_parameter: float
    relative_error: float  # ‖stolen − owner's‖ / ‖owner's‖ over all parameters; units that were not found count as 0
    cosine: float  # the mean cosine similarity of matched weight columns: the thesis reports 0.98
    largest_difference: float  # of a centred logit, over the inputs
    fidelity: Estimate  # inputs that both give one label
    owners: Tensor  # (parameters,), matched and normalised
    stolen: Tensor

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("units found", f"{self.found} of {self.units}"),
            ("relative error of the parameters", f"{self.relative_error:.1e}"),
            ("cosine of the weight columns", f"{self.cosine:.6f}"),
            ("largest difference of a logit", f"{self.largest_difference:.1e}"),
            ("fidelity", str(self.fidelity)),
            ("queries", f"{self.queries:,}, {self.queries_per_parameter:.1f} per parameter"),
        ]

    def draw(self) -> Figure:
        """Each stolen parameter over the owner's: on the diagonal where it came back."""
        drawn = plots.figure(height=4.6)
        ax = plots.axes(drawn, "Parameters that came back", "the owner's", "stolen")
        ends = [float(self.owners.min()), float(self.owners.max())]
        ax.plot(ends, ends, color=plots.MUTED, lw=1)
        ax.scatter(self.owners, self.stolen, s=22, color=plots.PALETTE[0], alpha=0.8, linewidths=0)
        return drawn


def compare(stolen: Stolen, owner: Model, inputs: torch.Tensor) -> Recovery:
    """Match a recovered network with the owner's and ask both about `inputs: (n, *input_shape)`.

    A unit may come back at any place and in any scale: rows of the first layer are brought to length one, and paired
    so that the sum of their distances is smallest.
    """
    from scipy.optimize import linear_sum_assignment

    with measured(stolen.provenance.seed, model=owner.fingerprint()) as provenance:
        copy = stolen.model(owner.dtype)
        truth = _normal_form(owner)
        ours = Network(*(t.numpy() for t in (stolen.first, stolen.first_bias, stolen.last, stolen.last_bias)))
        theirs, mine = _per_unit(truth), _per_unit(ours)
        pairs = linear_sum_assignment(np.linalg.norm(theirs[:, None] - mine[None], axis=-1))
        matched = np.zeros_like(theirs)
        matched[pairs[0]] = mine[pairs[1]]
        owners = np.append(theirs.ravel(), truth.last_bias)
        recovered = np.append(matched.ravel(), ours.last_bias)
        width = truth.first.shape[1]
        logits = [_centre(model.logits(inputs).double()) for model in (owner, copy)]
        same = int((logits[0].argmax(1) == logits[1].argmax(1)).sum())
    return Recovery(
        provenance=provenance(),
        units=len(theirs),
        found=len(mine),
        queries=stolen.queries,
        queries_per_parameter=stolen.queries / truth.parameters,
        relative_error=float(np.linalg.norm(recovered - owners) / np.linalg.norm(owners)),
        cosine=float((theirs[:, :width] * matched[:, :width]).sum(axis=1).mean()),
        largest_difference=float((logits[0] - logits[1]).abs().max()),
        fidelity=Estimate.rate(same, len(inputs)),
        owners=torch.from_numpy(owners),
        stolen=torch.from_numpy(recovered),
    )


def _normal_form(model: Model) -> Network:
    """The owner's network as a function of raw inputs, in the form in which a stolen one comes back.

    Preprocessing that is affine is part of the first layer.
    """
    layers = [part for part in model.module.modules() if isinstance(part, nn.Linear)]
    bends = [part for part in model.module.modules() if isinstance(part, nn.ReLU)]
    if len(layers) != 2 or len(bends) != 1:
        raise InputError(
            "Only a network with one hidden layer, Linear – ReLU – Linear, can be compared parameter by parameter. "
            f"Got {len(layers)} linear layers and {len(bends)} ReLUs."
        )
    width = layers[0].in_features
    corners = torch.cat([torch.zeros(1, width), torch.eye(width)]).to(model.device, model.dtype)
    with torch.no_grad():
        seen = layers[0](model.preprocess(corners.reshape(-1, *model.input_shape)).flatten(1)).double().cpu()
    first, bias = (seen[1:] - seen[0]).T.numpy(), seen[0].numpy()
    length = np.linalg.norm(first, axis=1)
    weight = _centre(layers[1].weight.detach().double().cpu(), 0).numpy()
    shift = layers[1].bias.detach().double().cpu() if layers[1].bias is not None else torch.zeros(len(weight)).double()
    return Network(first / length[:, None], bias / length, weight * length, _centre(shift, 0).numpy())


def _per_unit(network: Network) -> Array:
    """What belongs to each unit: its weights, its bias and its row to the classes, (units, width + 1 + classes)."""
    return np.concatenate([network.first, network.first_bias[:, None], network.last.T], axis=1)


def _centre(values: torch.Tensor, over: int = 1) -> torch.Tensor:
    return values - values.mean(dim=over, keepdim=True)
