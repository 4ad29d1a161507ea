"""Certification: for each input, how far it may be moved without changing what the network promises about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from modelkeep.certify.arithmetic import plain_kernels
from modelkeep.certify.constants import Lipschitz, examine, lipschitz
from modelkeep.certify.guarantees import Guarantee, Standard
from modelkeep.certify.relaxed_radii import Around, Proof, relaxed_radii
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.progress import task
from modelkeep.core.results import Estimate, Result, Tensor, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BATCH = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class Certified(Result, kind="certified"):
    """What is proved about each input, and the shares that follow.

    Below `radii[i]` nothing that the guarantee forbids can happen to input i, in the network as it is computed.
    `verified` is the verified-robust accuracy at `radius` (VRA; RTK or affinity VRA for those guarantees, 7.4.1), and
    `verified_exactly` the same for exact arithmetic, which is what papers report. `sets` are the classes that the
    guarantee names at the radius: none where the input is rejected. `proofs` say which bounds each radius comes from,
    where others than the Lipschitz constants were asked.
    """

    guarantee: str
    norm: Norm
    radius: float
    clean: Estimate
    verified: Estimate
    verified_exactly: Estimate
    rejected: Estimate
    bounds: Lipschitz
    classes: tuple[str, ...] = field(repr=False)
    labels: Tensor = field(repr=False)
    logits: Tensor = field(repr=False)
    radii: Tensor = field(repr=False)
    sets: Tensor = field(repr=False)
    sizes: Tensor = field(repr=False)
    proofs: tuple[Proof, ...] = field(default=(), repr=False)

    def rows(self) -> list[tuple[str, str]]:
        """The shares, and the constant that they come from."""
        return [
            ("guarantee", f"{self.guarantee}, {self.norm}, radius {self.radius:.4g}"),
            ("accuracy, clean", str(self.clean)),
            ("accuracy, verified", str(self.verified)),
            ("the same in exact arithmetic", str(self.verified_exactly)),
            ("rejected", str(self.rejected)),
            ("median certified radius", f"{float(self.radii.median()):.4g}"),
            ("largest margin constant", f"{self.bounds.constant:.4g}"),
            *((f"radii by {name}", str(self.proofs.count(name))) for name in dict.fromkeys(self.proofs)),
        ]

    def certified_at(self, radius: float) -> Estimate:
        """The share of the inputs that the guarantee holds for at `radius`, rightly answered or not."""
        return Estimate.rate(int((self.radii > radius).sum()), len(self.radii))

    def draw(self) -> Figure:
        """The share of inputs that are certified, against the radius."""
        from modelkeep.core import plots

        end = max([self.radius, *self.radii[self.radii.isfinite()].tolist()])
        radii = [end * step / 50 for step in range(51)]
        return plots.curve(
            radii,
            {self.guarantee: [self.certified_at(radius) for radius in radii]},
            x_label=f"radius, {self.norm}",
            y_label="share of inputs certified",
        )


@declare("certify", "lipschitz", access="weights", paper="Leino2022, sections 6.2 and 7.4.1")
class Certify:
    """Prove for each example how far it can be moved, by a global Lipschitz bound; count those that hold at `radius`.

    The margins are computed in float64, and the rounding of the network's own pass is bounded from the sizes of all its
    values at the example (see `rounding`): closer than `GloRoNet`, which answers in one pass of the network itself.

    >>> from torch import nn
    >>> module = nn.Linear(2, 2, bias=False)
    >>> _ = module.weight.data.copy_(torch.eye(2))
    >>> data = Data(torch.tensor([[1.0, 0.0], [0.1, 0.2]]), torch.tensor([0, 1]), ("a", "b"))
    >>> found = Certify(radius=0.5)(Model(module, input_shape=(2,), classes=("a", "b")), data)
    >>> [round(radius, 4) for radius in found.radii.tolist()]
    [0.7071, 0.0707]
    >>> found.verified.value
    0.5
    """

    radius: float = setting("How far an attacker may move an input, in the data's units.", above=0, below=math.inf)
    norm: Norm = setting("How a change is measured.", default="l2")
    guarantee: Guarantee = setting("What must stay.", default_factory=Standard)
    relaxation: bool = setting(
        "Also bound the network around each input, by intervals and linear relaxation: a few small inputs per second.",
        default=False,
    )

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Certified:
        model.require_fit(data)
        self.guarantee.require_promise(len(model.classes))
        with measured(seed, model=model.fingerprint(), data=data.fingerprint()) as provenance:
            bounds = lipschitz(model, self.norm)
            written = trace_operations(model)
            tensors = {name: tensor.detach().cpu().double() for name, tensor in tensors_of(model.module).items()}
            radii, logits, sets, sizes, exact = [], [], [], [], []
            proofs: list[Proof] = []
            with torch.no_grad(), task("Certifying", total=len(data)) as progress:
                for start in range(0, len(data), _BATCH):
                    x, y = (t[start : start + _BATCH] for t in (data.x, data.y))
                    with plain_kernels(model.device):
                        computed = model.logits(x)
                    margins, size, fixed = examine(model, written, bounds.rounding, x, computed)
                    reach = self.guarantee.radius(margins, bounds.rate, fixed)
                    cost, cost_exactly = self.radius * bounds.rate + fixed, self.radius * bounds.margins
                    if self.relaxation:
                        around = Around(written, tensors, bounds, self.guarantee, x.cpu().double(), margins, fixed)
                        here = torch.full((len(x),), self.radius, dtype=torch.float64)
                        cost, cost_exactly = around.costs(here, linear=True)
                        reach, by = relaxed_radii(around, reach)
                        proofs.extend(by)
                    radii.append(reach)
                    sets.append(self.guarantee.sets(margins, cost))
                    exact.append(self.guarantee.verified(margins, cost_exactly, y))
                    logits.append(margins)
                    sizes.append(size)
                    progress.advance(len(x))
            found, scored = torch.cat(sets), torch.cat(logits)
            n = len(data)
            verified = found.gather(1, data.y[:, None]).sum()
        return Certified(
            guarantee=self.guarantee.name,
            norm=self.norm,
            radius=self.radius,
            clean=Estimate.rate(int(self.guarantee.accurate(scored, data.y).sum()), n),
            verified=Estimate.rate(int(verified), n),
            verified_exactly=Estimate.rate(int(torch.cat(exact).sum()), n),
            rejected=Estimate.rate(int((~found.any(dim=1)).sum()), n),
            bounds=bounds,
            classes=model.classes,
            labels=data.y,
            logits=scored,
            radii=torch.cat(radii),
            sets=found,
            sizes=torch.cat(sizes),
            proofs=tuple(proofs),
            provenance=provenance(),
        )
