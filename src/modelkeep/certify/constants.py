"""Lipschitz: sound margin constants of a trained network, K_ij of Leino2022, appendix A.1, with their rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from modelkeep.certify.arithmetic import plain_kernels
from modelkeep.certify.block_bounds import block_matrix, block_norm, matrix_error
from modelkeep.certify.blocks import Graph
from modelkeep.certify.comparison import answers, inputs_to_compare
from modelkeep.certify.interpreter import run
from modelkeep.certify.operations import Operation
from modelkeep.certify.rounding import Rounding, margin_rounding
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.errors import ModelError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.progress import task
from modelkeep.core.results import Provenance, Result, Tensor, measured

NORMS: tuple[Norm, ...] = ("l2", "linf", "l1")
_OUTWARDS = 1 + 1e-9  # the products and sums of the bounds themselves are rounded, too, by far less than this


@dataclass(frozen=True)
class LayerBound:
    """How much one affine stretch of the network can stretch a difference of its inputs."""

    name: str
    bound: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Lipschitz(Result, kind="lipschitz"):
    """Upper bounds that hold for every input, and for the network as it is computed.

    `margins[i, j]` bounds the Lipschitz constant of f_j - f_i, from the owner's input in `norm`; `rounding` bounds how
    far the computed margins are from the exact ones. `layers` are the affine stretches in the order of the run.
    """

    norm: Norm
    classes: tuple[str, ...]
    dimensions: int
    margins: Tensor
    rounding: Rounding
    layers: tuple[LayerBound, ...]
    provenance: Provenance

    @property
    def constant(self) -> float:
        """The largest margin constant of any two classes."""
        return float(self.margins.max())

    @property
    def rounding_slope(self) -> torch.Tensor:
        """The computed margin at x is within rounding_slope · ‖x‖₂ + rounding_offset of the exact one, `(m, m)`."""
        return self.rounding.slope

    @property
    def rounding_offset(self) -> torch.Tensor:
        """See `rounding_slope`."""
        return self.rounding.offset

    @property
    def rate(self) -> torch.Tensor:
        """What a radius of one costs each margin, `(m, m)`: the constant, and the rounding at an input farther out."""
        farther = math.sqrt(self.dimensions) if self.norm == "linf" else 1.0  # ℓ2 length of a perturbation of one
        return (self.margins + self.rounding_slope * farther) * _OUTWARDS

    def rounding_cost(self, x: torch.Tensor) -> torch.Tensor:
        """What rounding costs each computed margin at any radius, `(n, m, m)`: at `x` and at the perturbed input.

        This needs nothing but the length of `x: (n, ...)`; `certify` looks closer, at the sizes of all values.
        """
        length = x.detach().double().flatten(1).norm(dim=1).cpu() * _OUTWARDS
        cost: torch.Tensor = 2 * (self.rounding_slope * length[:, None, None] + self.rounding_offset) * _OUTWARDS
        return cost

    def rows(self) -> list[tuple[str, str]]:
        """The bounds by layer, then of the margins."""
        layers = [(layer.name, f"{layer.bound:.4g}") for layer in self.layers]
        return [*layers, ("largest margin constant", f"{self.constant:.4g}")]


def lipschitz(model: Model, norm: Norm = "l2") -> Lipschitz:
    """Bound how fast each difference of two logits can change when the input is moved in `norm`.

    Upper bounds only: exact decompositions where a stretch is small, the symbol of a convolution where it is large
    (`norms.py`), in float64 and rounded outwards. Operations without a rule are refused by name.

    >>> from torch import nn
    >>> module = nn.Linear(2, 2, bias=False)
    >>> _ = module.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> bounds = lipschitz(Model(module, input_shape=(2,), classes=("a", "b")))
    >>> round(bounds.constant, 6)
    5.0
    """
    if norm not in NORMS:
        raise bad_parameter("lipschitz", "norm", f"one of {', '.join(map(repr, NORMS))}", norm)
    with measured(seed=0, model=model.fingerprint()) as provenance, torch.no_grad():
        graph = Graph(trace_operations(model))
        tensors = {name: t.detach().to("cpu") for name, t in tensors_of(model.module).items()}
        tensors = {name: t.double() if t.is_floating_point() else t for name, t in tensors.items()}
        for name, tensor in tensors.items():
            if not torch.isfinite(tensor).all():
                raise ModelError(f"'{name}' holds NaN or infinite values: such a network has no bounds.")
        found = {norm: _bound_blocks(graph, tensors, norm)}
        margins = _margins(graph, tensors, norm, found[norm][0])
        # Rounding is bounded in ℓ2, whatever norm the adversary is bounded in.
        gains, bounds = found[norm] if norm == "l2" else _bound_blocks(graph, tensors, "l2")
        reached = {block.name: gains[block.source] * bounds[block.name] for block in graph.blocks}
        # The norm of a block that is one operation, apart from what keeps lengths, is that operation's own.
        alone = {block.name: bounds[block.name] for block in graph.blocks if block.is_one_layer}
        rounding = margin_rounding(model, graph.operations, tensors, {**gains, **reached}, alone)
        if not all(torch.isfinite(found).all() for found in (margins, rounding.slope, rounding.offset)):
            raise ModelError("The bounds of this network are too large for float64, so nothing can be certified.")
        x = inputs_to_compare(model)
        with plain_kernels(model.device):
            for _, n, computed in answers(model.forward, x):
                examine(model, graph.operations, rounding, x[:n], computed)
    return Lipschitz(
        norm=norm,
        classes=model.classes,
        dimensions=math.prod(model.input_shape),
        margins=margins,
        rounding=rounding,
        layers=tuple(LayerBound(str(block), found[norm][1][block.name]) for block in graph.blocks),
        provenance=provenance(),
    )


def examine(
    model: Model, written: Sequence[Operation], rounding: Rounding, x: torch.Tensor, computed: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """At inputs `x`, in float64: logits `(n, m)`, sizes `(n, values)` that rounding depends on, its error `(n, m, m)`.

    The logits that the network `computed` must be as near as that: TF32, autocast or a fast convolution that the
    bounds know nothing of would show here.
    """
    tensors = {name: tensor.detach().cpu() for name, tensor in tensors_of(model.module).items()}
    values = run(written, x.cpu().double(), tensors)
    logits = values[written[-1].name]
    sizes = [values[name].flatten(1).norm(dim=1) for name in rounding.values]
    stacked = torch.stack(sizes, dim=1) if sizes else torch.zeros(len(x), 0, dtype=torch.float64)
    stacked = stacked * (1 + 1e-9)
    # The pass above rounds, too: as the network does if that is in float64, otherwise half a billion times finer.
    error = rounding.weigh(stacked) * (2.0 if model.dtype == torch.float64 else 1 + 1e-8)
    off = computed.detach().cpu().double() - logits
    if not ((off[:, :, None] - off[:, None, :]).abs() <= error).all():
        raise ModelError(
            "The network does not compute what its weights and its type say: its logits are farther from exact ones "
            "than rounding can explain. Does it use autocast, TF32 or a fast approximate convolution?"
        )
    return logits, stacked, error


def _bound_blocks(
    graph: Graph, tensors: dict[str, torch.Tensor], norm: Norm
) -> tuple[dict[str, float], dict[str, float]]:
    """The gains of the sources, and the bounds of the blocks."""
    bounds: dict[str, float] = {}
    with task("Bounding layers", total=len(graph.blocks)) as progress:
        for block in graph.blocks:
            bounds[block.name] = block_norm(block, tensors, norm)
            progress.advance()
    return graph.gains(norm, lambda block: bounds[block.name], 1.0), bounds


def _margins(graph: Graph, tensors: dict[str, torch.Tensor], norm: Norm, gains: dict[str, float]) -> torch.Tensor:
    """K_ij: the gain of the last source times how far f_j - f_i can move when that moves by one."""
    last = graph.block(graph.operations[-1].name)
    classes = graph.operations[-1].shape[0]
    if last is None:  # it ends with something that is not affine: two logits move together at most as one vector does
        apart = {"l2": math.sqrt(2), "linf": 2.0, "l1": 1.0}[norm] * (1 - torch.eye(classes, dtype=torch.float64))
        return apart * gains[graph.operations[-1].name] * _OUTWARDS
    rows = block_matrix(last, tensors)
    # |<w, d>| is at most the dual norm of w times the norm of d.
    dual = {"l2": 2.0, "linf": 1.0, "l1": math.inf}[norm]
    apart = torch.cdist(rows, rows, p=dual, compute_mode="donot_use_mm_for_euclid_dist")
    if len(last.operations) > 1:  # otherwise the rows are weights, and exact
        apart = (apart + 2 * matrix_error(last, tensors, norm)) * (1 - torch.eye(classes, dtype=torch.float64))
    return apart * gains[last.source] * _OUTWARDS
