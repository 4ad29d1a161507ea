"""What a certificate promises: one class that stays on top, or a set of classes (Leino2022, sections 6.2, 7.2 and 7.3).

Let F^k(x) be the k classes with the highest logits, and K_ji a Lipschitz constant of f_j - f_i. Within a distance ε
no class outside of F^k(x) can pass one inside while the margin

    m^k(x) = min { f_j(x) - f_i(x) - ε K_ji : j in F^k(x), i not in F^k(x) }

is above 0: then F^k is the same set everywhere in the ball. A guarantee says which k it accepts, and certifies x
where one of them has m^k(x) > 0. Everything here is a function of the logits `(n, m)` and of the `cost`, `(m, m)` or
`(n, m, m)`: what the row class j may lose against the column class i. That is ε K_ji, and for a certificate also
the rounding of the pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

import torch

from modelkeep.core.card import class_names
from modelkeep.core.errors import InputError, bad_parameter, join_names, unknown_class
from modelkeep.core.method import declare, setting


class Guarantee(ABC):
    """Which sets of top classes are good enough. `Standard`, `RelaxedTopK` and `Affinity` are those of Leino2022."""

    @property
    @abstractmethod
    def name(self) -> str:
        """In a word, for tables."""

    @property
    @abstractmethod
    def notation(self) -> str:
        """How the command line writes it; `parse_guarantee` reads it."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """K: the size of the largest set that is good enough."""

    def require_promise(self, classes: int) -> None:
        """Refuse a guarantee that every answer of a model of so many classes meets, however far it is moved."""
        if self.largest >= classes:
            raise InputError(
                f"The guarantee {self.notation} promises nothing about a model of {classes} classes: a set of all "
                f"classes holds every answer. Its largest set must be of {classes - 1} classes at most."
            )

    def allowed(self, order: torch.Tensor) -> torch.Tensor:
        """Whether F^k is good enough, `(n, K)` for k = 1 … K. `order: (n, m)` has the classes by falling logit."""
        return order.new_ones((len(order), min(self.largest, order.shape[1])), dtype=torch.bool)

    def margin(self, logits: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        """m(x) of algorithms 7.1 and 7.2, `(n,)`: certified where it is above 0. Differentiable in both arguments.

        >>> Standard().margin(torch.tensor([[3.0, 1.0, 0.0]]), 0.5 * (1 - torch.eye(3)))
        tensor([1.5000])
        """
        return self._margins(logits, cost).amax(dim=1)

    def radius(self, logits: torch.Tensor, rate: torch.Tensor, fixed: torch.Tensor | float = 0.0) -> torch.Tensor:
        """The distance `(n,)` below which x is certified at the cost ε·rate + fixed; 0 where nothing is.

        The largest zero of the margin in ε, in closed form: each pair of classes (j, i) holds below
        (f_j - f_i - fixed_ji) / rate_ji. At the radius itself the margin is 0, so nothing is promised there. A set
        of all classes cannot be left: its radius is infinite, as is that of logits that do not depend on x.
        """
        order, ranked = _rank(logits, rate)
        size = min(self.largest, ranked.shape[1])
        rates = _pairs(rate, order, size)
        room = _differences(ranked, size) - (_pairs(fixed, order, size) if isinstance(fixed, torch.Tensor) else fixed)
        # Where the rate is 0 the pair holds everywhere or nowhere.
        reach = torch.where(rates > 0, room / rates, torch.where(room > 0, torch.inf, 0.0))
        return _worst(reach).masked_fill(~self.allowed(order), 0.0).amax(dim=1).clamp(min=0.0)

    def certified(self, logits: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        """Which k are certified and good enough, `(n, K)` for k = 1 … K (figure 7.4 counts them)."""
        return self._margins(logits, cost) > 0

    def sets(self, logits: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        """The classes of the loosest guarantee, F^k* of 7.4.1, as a mask `(n, m)`; none where x is rejected."""
        certified = self.certified(logits, cost)
        sizes = torch.arange(1, certified.shape[1] + 1, device=logits.device)
        return _places(logits) < (certified * sizes).amax(dim=1, keepdim=True)

    def smallest_sets(self, logits: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        """The classes of the tightest guarantee, as a mask `(n, m)`: what figure 7.2(d) colours."""
        certified = self.certified(logits, cost)
        size = torch.where(certified.any(dim=1), certified.int().argmax(dim=1) + 1, 0)
        return _places(logits) < size[:, None]

    def verified(self, logits: torch.Tensor, cost: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """What VRA, RTK VRA and affinity VRA count, `(n,)`: x is certified and its label is in F^k* (7.4.1)."""
        return self.sets(logits, cost).gather(1, y[:, None]).squeeze(1)

    def accurate(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The clean metric that goes with the guarantee, `(n,)`: top-1, top-K or affinity accuracy (7.4.1)."""
        allowed = self.allowed(_order(logits))
        place = _places(logits).gather(1, y[:, None])
        found = allowed.gather(1, place.clamp(max=allowed.shape[1] - 1)) & (place < allowed.shape[1])
        return found.squeeze(1)

    def _margins(self, logits: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        """m^k, `(n, K)`; minus infinity where F^k is not good enough."""
        order, ranked = _rank(logits, cost)
        size = min(self.largest, ranked.shape[1])
        margins = _worst(_differences(ranked, size) - _pairs(cost, order, size))
        return margins.masked_fill(~self.allowed(order), -torch.inf)


@declare("guarantee", "standard", paper="Leino2022, definition 5.2")
class Standard(Guarantee):
    """Local robustness: the predicted class stays the same."""

    @property
    def name(self) -> str:
        return "standard"

    @property
    def notation(self) -> str:
        return "standard"

    @property
    def largest(self) -> int:
        return 1


@declare("guarantee", "top-k", paper="Leino2022, definition 7.2", kw_only=False)
class RelaxedTopK(Guarantee):
    """Relaxed top-K robustness: for some k up to `k`, the k top classes stay the same set.

    >>> RelaxedTopK(2).margin(torch.tensor([[3.0, 2.9, 0.0]]), 0.5 * (1 - torch.eye(3)))
    tensor([2.4000])
    """

    k: int = setting("The size of the largest set.", at_least=1)

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int):
            raise bad_parameter("RelaxedTopK", "k", "a whole number of classes, at least 1", self.k)

    @property
    def name(self) -> str:
        return f"RT{self.k}"

    @property
    def notation(self) -> str:
        return f"top-{self.k}"

    @property
    def largest(self) -> int:
        return self.k


@declare("guarantee", "affinity", paper="Leino2022, definition 7.3", kw_only=False)
class Affinity(Guarantee):
    """Affinity robustness: some F^k that lies within one of the `groups` stays the same set.

    A class may be in many groups, and must be in one at least.

    >>> pets = Affinity([("cat", "dog"), ("car",)], classes=("car", "cat", "dog"))
    >>> pets.sets(torch.tensor([[0.0, 2.9, 3.0]]), 0.5 * (1 - torch.eye(3)))
    tensor([[False,  True,  True]])
    """

    groups: Sequence[Iterable[str]] = setting("The sets of classes that may be confused with each other.")
    classes: Sequence[str] = setting("All classes of the model.")

    def __post_init__(self) -> None:
        classes = tuple(self.classes)
        if any(isinstance(group, str) for group in self.groups):
            raise InputError(f"Each group must be a list of class names, not one name. Got {self.groups!r}.")
        groups = tuple(tuple(group) for group in self.groups)
        for name in (name for group in groups for name in group):
            if name not in classes:
                raise unknown_class("The guarantee", name, classes)
        left_out = [name for name in classes if not any(name in group for group in groups)]
        if left_out:
            raise InputError(
                f"Every class must be in one affinity set at least, or it could never be certified. Not in any: "
                f"{join_names(left_out)}. Give a class that shares with none a set of its own."
            )
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "groups", groups)

    @classmethod
    def of_indices(cls, groups: Iterable[Iterable[int]], classes: Sequence[str] | int) -> Affinity:
        """Groups given as labels 0 … m-1.

        >>> Affinity.of_indices([(0, 1), (2,)], classes=3).groups
        (('0', '1'), ('2',))
        """
        names = class_names(classes)
        labels = [tuple(group) for group in groups]
        for label in (label for group in labels for label in group):
            if not 0 <= label < len(names):
                raise bad_parameter("Affinity.of_indices", "groups", f"labels in 0..{len(names) - 1}", label)
        return cls([[names[label] for label in group] for group in labels], names)

    @property
    def name(self) -> str:
        return "affinity"

    @property
    def notation(self) -> str:
        return "affinity:" + ",".join("+".join(group) for group in self.groups)

    @property
    def largest(self) -> int:
        return int(self._members.sum(dim=1).max())

    def allowed(self, order: torch.Tensor) -> torch.Tensor:
        if order.shape[1] != len(self.classes):
            raise InputError(f"These affinity sets are of {len(self.classes)} classes, the logits of {order.shape[1]}.")
        inside = self._members.to(order.device)[:, order[:, : self.largest]]  # (groups, n, K)
        return ((~inside).cumsum(dim=2) == 0).any(dim=0)

    def contains(self, sets: torch.Tensor) -> torch.Tensor:
        """Whether each of `sets: (n, m)` lies within one of the groups, `(n,)`."""
        return (self._members[:, None] | ~sets).all(dim=2).any(dim=0)

    @cached_property
    def _members(self) -> torch.Tensor:
        """Who is in which group: `(groups, m)`, the bit maps of 7.3."""
        return torch.tensor([[name in group for name in self.classes] for group in self.groups])


def parse_guarantee(text: str, classes: Sequence[str]) -> Guarantee:
    """The guarantee that `text` names. A class that no affinity set has gets a set of its own.

    >>> parse_guarantee("affinity:cat+dog", ["car", "cat", "dog"]).notation
    'affinity:cat+dog,car'
    """
    found = _read_notation(text, classes)
    found.require_promise(len(classes))
    return found


def _read_notation(text: str, classes: Sequence[str]) -> Guarantee:
    if text == "standard":
        return Standard()
    if text.startswith("top-") and text.removeprefix("top-").isdecimal():
        return RelaxedTopK(int(text.removeprefix("top-")))
    if text.startswith("affinity:"):
        groups = [group.split("+") for group in text.removeprefix("affinity:").split(",")]
        alone = [[name] for name in classes if not any(name in group for group in groups)]
        return Affinity([*groups, *alone], classes)
    raise InputError(f"--guarantee must be standard, top-K such as top-3, or affinity:a+b,c+d. Got '{text}'.")


def with_bottom(logits: torch.Tensor, margin: torch.Tensor, *, through_top: bool = False) -> torch.Tensor:
    """The logits and f_⊥ = max_i f_i - m(x) behind them, `(n, m + 1)` (equations 7.1 and 7.3).

    By default the gradient reaches f_⊥ only through the margin, so that a rejected point raises its margin and does not
    lower its prediction (footnote 2 of chapter 7). With `through_top` it goes through max_i f_i, too: for `Standard`
    that is f_⊥ = max_{i≠j} f_i + ε K_ji of equations 6.2 and A.1, gradients included. Without it a rejected point
    raises its prediction j even where j is wrong, and in our trainings from scratch one class took all; with it they
    went well, for all three guarantees.

    Rounding does not blur the answer: the largest logit is f_⊥ exactly where the margin is not above 0.
    """
    top = logits.amax(dim=1)
    fixed = top.detach()
    bottom = (top if through_top else fixed) - margin.to(logits.dtype)
    above, below = (torch.nextafter(fixed, torch.full_like(fixed, end)) for end in (torch.inf, -torch.inf))
    bottom = torch.where(margin > 0, torch.minimum(bottom, below), torch.maximum(bottom, above))
    return torch.cat([logits, bottom[:, None]], dim=1)


def _order(logits: torch.Tensor) -> torch.Tensor:
    """The classes by falling logit, `(n, m)`; of equals the first comes first."""
    return logits.detach().argsort(dim=1, descending=True, stable=True)


def _places(logits: torch.Tensor) -> torch.Tensor:
    """The place of each class in that order, `(n, m)`, from 0."""
    return _order(logits).argsort(dim=1)


def _rank(logits: torch.Tensor, cost: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The order of the classes and their logits in it, `(n, m)` each, in the more exact of the two dtypes."""
    m = logits.shape[1]
    if cost.shape not in ((m, m), (len(logits), m, m)):
        raise InputError(
            f"The cost of pairs of classes must have shape ({m}, {m}) or ({len(logits)}, {m}, {m}) for logits of "
            f"shape {tuple(logits.shape)}. Got {tuple(cost.shape)}."
        )
    order = _order(logits)
    return order, logits.to(torch.promote_types(logits.dtype, cost.dtype)).gather(1, order)


def _differences(ranked: torch.Tensor, size: int) -> torch.Tensor:
    """f_j - f_i for the `size` top classes j and all i, both by falling logit: `(n, size, m)`."""
    return ranked[:, :size, None] - ranked[:, None, :]


def _pairs(cost: torch.Tensor, order: torch.Tensor, size: int) -> torch.Tensor:
    """The same pairs of `cost`: `(n, size, m)`, so that never all pairs of all examples are in memory."""
    rows, columns = order[:, :size, None], order[:, None, :]
    if cost.ndim == 2:
        return cost[rows, columns]
    return cost[torch.arange(len(order), device=order.device)[:, None, None], rows, columns]


def _worst(pairs: torch.Tensor) -> torch.Tensor:
    """For k = 1 … K the smallest value over j among the first k and i behind them: `(n, K)`.

    A tie between place k and k + 1 makes one of the differences 0 at most, so that such a k is never certified: a
    perturbation as small as you like changes F^k there. No class is outside of all m: that minimum is infinite.
    """
    n, size, m = pairs.shape
    all_classes = pairs.new_full((n,), torch.inf)
    return torch.stack([pairs[:, :k, k:].amin(dim=(1, 2)) if k < m else all_classes for k in range(1, size + 1)], dim=1)
