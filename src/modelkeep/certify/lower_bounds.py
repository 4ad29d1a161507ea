"""Lower bounds of Lipschitz constants: pairs of inputs on which the network is that steep (Leino2022, eq. 6.12).

Beside an upper bound they say how tight it is: what is between the two may be there or not. A certificate never uses
them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm, per_example
from modelkeep.core.results import Estimate, Result, Tensor, measured

_STARTS = 64  # pairs of the global search, half of them at examples and half at random points
_RUNNERS_UP = 10  # classes among which a start looks for its steepest margin
_BYTES = 1 << 30  # for what one gradient of some pairs keeps
_SHRINK = 0.1  # how much shorter a pair is at the end of its ascent


@dataclass(frozen=True, kw_only=True, eq=False)
class LipschitzBelow(Result, kind="lipschitz-below"):
    """The steepest pairs that were found. The true constants are at least as large.

    `constant` is eq. 6.12, over all of space; `margins: (m, m)` has the same for each pair of classes, on the same
    pairs of inputs. `local` is the mean over the examples of eq. 6.12 within `local_radius` of each of them.
    """

    norm: Norm
    constant: float
    margins: Tensor = field(repr=False)
    local_radius: float | None
    local: Estimate | None

    def rows(self) -> list[tuple[str, str]]:
        rows = [(f"steepest margin found, {self.norm}", f"at least {self.constant:.4g}")]
        if self.local is not None:
            rows.append((f"within {self.local_radius:g} of an example, mean", f"at least {self.local}"))
        return rows


@declare("certify", "lipschitz-below", access="weights", paper="Leino2022, eq. 6.12")
class LipschitzSearch:
    """Search for the pairs of inputs between which a margin of the predicted class changes fastest.

    The search starts at the examples; the local constants are those around all of them.

    >>> module = torch.nn.Linear(2, 2, bias=False)
    >>> _ = module.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> data = Data(torch.eye(2), torch.tensor([0, 1]), ("a", "b"))
    >>> found = LipschitzSearch()(Model(module, input_shape=(2,), classes=data.classes), data)
    >>> round(found.constant, 6)
    5.0
    """

    norm: Norm = setting("How the distance of two inputs is measured.", default="l2")
    local_radius: float | None = setting("Also search within this radius of each example.", default=None)
    steps: int = setting("Of each ascent.", default=100, at_least=1)

    @property
    def passes(self) -> int:
        """The passes of single examples that the global search takes; a gradient counts as one more."""
        return _STARTS * (1 + _RUNNERS_UP + 2 * 2 * (self.steps + 1) + 2)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> LipschitzBelow:
        ball = Ball(self.norm, self.local_radius)  # refuses what is not a norm or a radius
        model.require_fit(data)
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            model.logits(data.x[:_STARTS])  # refuses weights and examples that cannot be used
            search = _Search(model, self.norm, self.steps)
            random = torch.Generator().manual_seed(seed)
            around = []
            if self.local_radius is not None:
                with progress.task("Local Lipschitz constants", total=len(data)) as task:
                    for x, _ in data.batches(_STARTS):
                        around.append(search.ascend(x, 0.4 * ball.reach, random, ball))
                        task.advance(len(x))
            starts, half = _starts(data, self.norm, random)
            at_once = _pairs_at_once(model)
            with progress.task("Global Lipschitz constant", total=(self.steps + 1) * -(-_STARTS // at_once)) as task:
                for part in torch.split(starts, at_once):
                    search.ascend(part, half, random, task=task)
            local = None if self.local_radius is None else Estimate.bootstrap(torch.cat(around).numpy(), seed)
        return LipschitzBelow(
            norm=self.norm,
            constant=search.constant,
            margins=search.margins,
            local_radius=self.local_radius,
            local=local,
            provenance=provenance(),
        )


def _starts(data: Data, norm: Norm, random: torch.Generator) -> tuple[torch.Tensor, float]:
    """Examples and points drawn from the range of the data, and half the length of a pair to begin with."""
    examples = data.x[torch.randint(len(data), (_STARTS // 2,), generator=random)]
    low, high = float(data.x.min()), float(data.x.max())
    drawn = low + (high - low) * torch.rand(examples.shape, generator=random)
    typical = float(Ball(norm, None).distance(examples, examples.flip(0)).median()) / 4
    return torch.cat([examples, drawn]), typical if typical > 0 else 1.0


def _pairs_at_once(model: Model) -> int:
    """How many pairs fit into the memory budget: a pass keeps what its gradient needs of both ends."""
    kept = 0

    def count(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        model.forward(model.probe()[:1].requires_grad_())
    return min(_STARTS, max(1, _BYTES // max(1, 2 * kept)))


class _Search:
    """The ascent on pairs, and the steepest that it has seen; what is reported is computed in float64."""

    def __init__(self, model: Model, norm: Norm, steps: int) -> None:
        self._model, self._norm, self._steps = model, norm, steps
        self._exact = Model.from_card(copy.deepcopy(model.module).double(), model.card)
        self.constant = 0.0
        self.margins = torch.zeros(len(model.classes), len(model.classes), dtype=torch.float64)

    def ascend(
        self,
        x: torch.Tensor,
        half: float,
        random: torch.Generator,
        ball: Ball | None = None,
        task: progress.Task | None = None,
    ) -> torch.Tensor:
        """The largest quotients `(n,)` found from pairs centred at `x: (n, ...)`, in the ball around them.

        A pair is c ± h d, with |d| = 1. Its quotient is the mean slope between its ends, so it grows when d turns into
        the steepest direction of both ends' gradients together, and c goes where the slope is larger: a step along
        the gradient at one end minus that at the other. A long pair sees far, a short one meets the steepest place:
        h shrinks from `half` on.
        """
        direct = Ball(self._norm, None)
        x = x.to(self._model.device, self._model.dtype)
        towards = self._first_direction(x, direct, random)
        centre, largest, best = x, x.new_zeros(len(x)), torch.stack([x, x])
        for step in range(self._steps + 1):
            h = half * _SHRINK ** (step / self._steps)
            ends = torch.stack([centre + h * towards, centre - h * towards]).requires_grad_()
            margin = self._steepest(ends)
            found = margin.detach() / (2 * h)
            better = found > largest
            largest, best[:, better] = torch.where(better, found, largest), ends.detach()[:, better]
            up, down = torch.autograd.grad(margin.sum(), ends)[0]
            # `down` is the gradient of minus the margin, as the second end's is subtracted.
            towards = torch.where(
                per_example((up == down).flatten(1).all(dim=1), x), towards, direct.steepest(up - down)
            )
            centre = centre + h * direct.steepest(up + down)
            if ball is not None:
                centre = Ball(self._norm, ball.reach - h).project(centre, x)
            if task is not None:
                task.advance()
        return self._quotients(best)

    def _first_direction(self, x: torch.Tensor, direct: Ball, random: torch.Generator) -> torch.Tensor:
        """The steepest direction at x over the predicted class' margins; a random one where all are flat."""
        x = x.detach().requires_grad_()
        ranked = self._model.forward(x).sort(dim=1, descending=True).values
        towards, slope = direct.steepest(torch.randn(x.shape, generator=random).to(x)), x.new_zeros(len(x))
        for i in range(1, min(1 + _RUNNERS_UP, ranked.shape[1])):
            (gradient,) = torch.autograd.grad((ranked[:, 0] - ranked[:, i]).sum(), x, retain_graph=True)
            direction = direct.steepest(gradient)
            found = (gradient * direction).flatten(1).sum(dim=1)
            towards = torch.where(per_example(found > slope, x), direction, towards)
            slope = torch.maximum(slope, found)
        return towards

    def _steepest(self, ends: torch.Tensor) -> torch.Tensor:
        """max_i |f_j - f_i at the first end, minus the same at the second|, j predicted at the first: (n,)."""
        first, second = self._model.forward(ends.flatten(0, 1)).chunk(2)
        moved = first - second
        return (moved.gather(1, first.argmax(dim=1, keepdim=True)) - moved).abs().amax(dim=1)

    def _quotients(self, ends: torch.Tensor) -> torch.Tensor:
        """The quotients of these pairs in float64, less what its own rounding could have added."""
        first, second = ends.double().cpu()
        with torch.no_grad():
            at_first, at_second = self._exact.forward(first), self._exact.forward(second)
        moved = at_first - at_second
        rounding = 1e-12 * (at_first.abs().amax(dim=1) + at_second.abs().amax(dim=1))
        distance = Ball(self._norm, None).distance(first, second).clamp_min(1e-300)
        largest = moved.new_zeros(len(moved))
        for i, predicted in enumerate(at_first.argmax(dim=1).tolist()):  # of 1,000 classes a pair has 8 MB of margins
            apart = (moved[i, :, None] - moved[i, None, :]).abs() - rounding[i]
            quotients = (apart / distance[i]).clamp_min(0)
            self.margins = torch.maximum(self.margins, quotients)
            largest[i] = quotients[predicted].max()
        self.constant = max(self.constant, float(largest.max()))
        return largest
