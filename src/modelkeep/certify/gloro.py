"""GloRoNet: a network that says ⊥ where it could not promise its answer (Leino2022, section 6.1 and appendix A.1)."""

from __future__ import annotations

import math
from itertools import chain

import torch

from modelkeep.certify.arithmetic import plain_kernels
from modelkeep.certify.constants import examine, lipschitz
from modelkeep.certify.guarantees import Guarantee, Standard, with_bottom
from modelkeep.certify.trace import require_plain, trace_operations
from modelkeep.core.errors import ModelError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.slices.graphs import identity

_CHUNK = 10_000_000  # numbers that the costs of all pairs of classes may take at a time


class GloRoNet:
    """The model with one more output, ⊥: it is the largest where the answer could change within `radius`.

    The bounds are computed once, here; after that a certified answer costs one pass. They hold for the network as it is
    now, so a net whose weights or parts were changed since refuses to answer. (Writing through `tensor.data` hides a
    change from torch itself, and so from this check.)

    >>> from torch import nn
    >>> module = nn.Linear(2, 2, bias=False)
    >>> _ = module.weight.data.copy_(torch.eye(2))
    >>> net = GloRoNet(Model(module, input_shape=(2,), classes=("a", "b")), radius=0.5)
    >>> x = torch.tensor([[1.0, 0.0], [0.5, 0.0]])
    >>> net.predict(x)
    tensor([0, 2])
    >>> [round(radius, 4) for radius in net.radii(x).tolist()]
    [0.7071, 0.3536]
    """

    def __init__(self, model: Model, radius: float, guarantee: Guarantee | None = None, *, norm: Norm = "l2") -> None:
        if not 0 < radius < math.inf:
            raise bad_parameter("GloRoNet", "radius", "a number above 0", radius)
        model.require_eval()
        self.model, self.radius = model, radius
        self.guarantee = guarantee if guarantee is not None else Standard()
        self.guarantee.require_promise(len(model.classes))
        self.bounds = lipschitz(model, norm)
        # What all pairs lose, affine in the length of the input: cost_ji = slope_ji ‖x‖ + offset_ji.
        nothing, unit = (self.bounds.rounding_cost(torch.tensor([[length]]))[0] for length in (0.0, 1.0))
        self._slope = (unit - nothing).clamp(min=0).mul(1 + 1e-9).to(model.device)
        self._offset = (radius * self.bounds.rate + nothing).to(model.device)
        # A detached tensor shares memory and version with its parameter, and keeps the memory from being used anew.
        self._weights = [(tensor.detach(), tensor._version) for tensor in _tensors(model)]
        self._parts = identity(model.module)
        self._written = trace_operations(model)
        self._compared: set[tuple[int, bool, int]] = set()
        self._held = list(model.module.modules())  # alive, so that no new part takes the place of an old one in memory

    @property
    def bottom(self) -> int:
        """The label of ⊥: one more than that of the last class."""
        return len(self.model.classes)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """The logits with that of ⊥ behind them, `(n, m + 1)`."""
        logits = self._plain(x)
        return with_bottom(logits, self._margin(logits, x))

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        """Labels `(n,)`, `bottom` where the guarantee does not hold within the radius."""
        logits = self._plain(x)
        return logits.argmax(dim=1).masked_fill(self._margin(logits, x) <= 0, self.bottom)

    def radii(self, x: torch.Tensor) -> torch.Tensor:
        """For each input the distance below which the guarantee holds, `(n,)`, whatever the net's own radius."""
        logits = self._plain(x).double()
        rate = self.bounds.rate.to(logits.device)
        chunk = max(1, _CHUNK // rate.numel())
        return torch.cat(
            [
                self.guarantee.radius(some, rate, self.bounds.rounding_cost(inputs).to(logits.device))
                for some, inputs in zip(torch.split(logits, chunk), torch.split(x, chunk), strict=True)
            ]
        )

    def _plain(self, x: torch.Tensor) -> torch.Tensor:
        now = _tensors(self.model)
        if len(now) != len(self._weights) or any(
            tensor.data_ptr() != kept.data_ptr() or tensor._version != version
            for tensor, (kept, version) in zip(now, self._weights, strict=True)
        ):
            raise _changed_error("The weights")
        self.model.require_eval()
        if identity(self.model.module) != self._parts:
            raise _changed_error("The parts")
        require_plain(self.model.module)
        with plain_kernels(self.model.device):
            logits = self.model.logits(x)
        # A kernel, and careless code, may go by the size of the batch: the first of each size is compared.
        way = len(logits), torch.is_inference_mode_enabled(), torch.get_num_threads()
        if way not in self._compared:
            ends = [0, -1] if len(logits) > 1 else slice(None)
            examine(self.model, self._written, self.bounds.rounding, self.model.check_inputs(x)[ends], logits[ends])
            self._compared.add(way)
        return logits

    def _margin(self, logits: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """m(x) with the rounding of the pass, `(n,)`, in float64."""
        exact = logits.double()
        length = _length(x).to(logits.device)
        if isinstance(self.guarantee, Standard):  # asks for one row of pairs only
            top, predicted = exact.max(dim=1, keepdim=True)
            row = predicted.squeeze(1)
            room: torch.Tensor = top - exact - (self._slope[row] * length + self._offset[row])
            return room.scatter(1, predicted, torch.inf).amin(dim=1)
        chunk = max(1, _CHUNK // self._slope.numel())
        return torch.cat(
            [
                self.guarantee.margin(some, self._slope * lengths[:, :, None] + self._offset)
                for some, lengths in zip(torch.split(exact, chunk), torch.split(length, chunk), strict=True)
            ]
        )


def _changed_error(what: str) -> ModelError:
    return ModelError(
        f"{what} of this model were changed after its bounds were computed, so the bounds are not its own any more. "
        "Make a new GloRoNet of it."
    )


def _length(x: torch.Tensor) -> torch.Tensor:
    """At least the ℓ2 length of each input, `(n, 1)` in float64; of float32 inputs five times faster in float32."""
    flat = x.flatten(1)
    if x.dtype != torch.float32:
        flat = flat.double()
    length: torch.Tensor = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    # The sum of d squares is off by at most d roundings of it, and its root by half of that.
    return length.double() * (1 + (flat.shape[1] + 8) * torch.finfo(flat.dtype).eps)


def _tensors(model: Model) -> list[torch.Tensor]:
    return list(chain(model.module.parameters(), model.module.buffers()))
