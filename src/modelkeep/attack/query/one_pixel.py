"""One pixel: differential evolution over which pixel to change, and to what (Su2019)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Case, Search
from modelkeep.attack.query.span import Span, span_of
from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import AnyNorm, Ball

# Candidates are made and asked in pieces of at most this number of values (128 MB), however many examples there are.
_VALUES_AT_ONCE = 2**25


@declare("attack", "one-pixel", access="scores", paper="Su2019")
class OnePixel(Attack):
    """A few pixels, by differential evolution.

    A pixel takes any value within the model's bounds. Of a table a pixel is one feature, and where the model has no
    bounds it takes any value between the smallest and the largest that the feature has in the data. All examples
    evolve at once, one pass per generation; an example is dropped as soon as it is solved, or its candidates are all
    alike.
    """

    cheap: ClassVar[dict[str, Any]] = {"pixels": 2, "population": 4, "generations": 2}

    norm: AnyNorm = norm_setting("l0")
    pixels: int = setting("How many pixels (features) may change.", default=1, at_least=1)
    population: int = setting(
        "Candidates per example; a child has three parents. The paper has 400.", default=100, at_least=4
    )
    generations: int = setting(
        "How often each candidate is challenged by a child. The paper has 100.", default=100, at_least=1
    )

    @property
    def title(self) -> str:
        """What results call it."""
        return "one pixel"

    def ball(self, model: Model) -> Ball:
        """Inputs with at most `pixels` other pixels."""
        return Ball("l0", self.pixels, model.bounds)

    def searches(self, model: Model, data: Data) -> list[Search]:
        """The evolution, which draws values from the span of the model or of the data."""
        return [_Evolution(self, span_of(model, data))]


@dataclass(frozen=True)
class _Evolution:
    """The inner loop: a population of candidates per example, each challenged by a child in every generation."""

    settings: OnePixel
    span: Span = field(repr=False)
    title: ClassVar[str] = "one pixel"
    sees: ClassVar[type[Scores]] = Scores

    def search(self, case: Case[Scores], /) -> torch.Tensor:
        """The best candidate for each example, `(n, ...)`."""
        end, active = case.original.clone(), torch.arange(len(case), device=case.original.device)
        going, parents = case, self._first(case)
        lead, reached = self._ask(going, parents)
        peaks = lead.new_zeros(3, len(case))
        looks = {0: 0, 3 * self.settings.generations // 4: 1, self.settings.generations: 2}
        for generation in range(self.settings.generations + 1):
            if generation > 0:
                children = self._children(parents, case.generator)
                child_lead, child_reached = self._ask(going, children)
                better = child_lead > lead
                parents = torch.where(better[..., None, None], children, parents)
                lead, reached = torch.where(better, child_lead, lead), torch.where(better, child_reached, reached)
            peak, best = lead.max(dim=1)
            end[active] = self._inputs(going, parents[torch.arange(len(best)), best][:, None])[:, 0]
            if generation in looks:
                peaks[looks[generation], active] = peak
            solved = reached.any(dim=1)
            if solved.any():
                case.health.see_solved(generation, int(solved.sum()), self.settings.generations + 1)
            if (ended := solved | self._alike(going, parents)).any():
                rest = ~ended
                going, active, parents = going.part(rest), active[rest], parents[rest]
                lead, reached = lead[rest], reached[rest]
            if len(active) == 0:
                return end
        rose = active[peaks[2, active] > peaks[0, active]]
        case.health.see_ascent(*peaks[:, rose])
        return end

    def _first(self, case: Case[Scores]) -> torch.Tensor:
        """The first candidates `(n, population, pixels, 2 + channels)`: row, column and value, all from 0 to 1.

        Places are uniform; values are normal around the middle, so that a third of them lie at the ends (the paper's).
        """
        shape = (len(case), self.settings.population, self.settings.pixels, 2 + _grid(case.original)[0])
        genes = torch.rand(shape, generator=case.generator)
        genes[..., 2:] = (0.5 + 0.5 * torch.randn(genes[..., 2:].shape, generator=case.generator)).clamp(0, 1)
        return genes.to(case.original)

    def _children(self, parents: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """The sum of one candidate and half the difference of two others, all three not the one that is challenged."""
        n, count = parents.shape[:2]
        # Three different distances to walk along the circle of candidates lead to three different others.
        steps = torch.rand(n, count - 1, generator=generator).argsort(dim=1)[:, :3] + 1
        others = (torch.arange(count)[None, :, None] + steps[:, None, :]) % count
        rows = torch.arange(n)[:, None, None]
        one, two, three = parents[rows, others].unbind(dim=2)
        children = one + 0.5 * (two - three)
        children[..., :2] %= 1  # who walks off one side of the image comes back on the other
        children[..., 2:].clamp_(0, 1)
        return children

    def _alike(self, case: Case[Scores], genes: torch.Tensor) -> torch.Tensor:
        """Whether all candidates of an example have become one, `(n,)`: their children are then no others."""
        spread = genes[..., 2:].amax(dim=1) - genes[..., 2:].amin(dim=1)
        places = self._places(case, genes)
        return (spread < 1e-3).flatten(1).all(dim=1) & (places == places[:, :1]).flatten(1).all(dim=1)

    def _ask(self, case: Case[Scores], genes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """How far each candidate leads, and whether that is far enough: `(n, population)` both."""
        population = genes.shape[1]
        at_once = max(1, _VALUES_AT_ONCE // (population * case.original[0].numel()))
        leads, reaches = [], []
        for index in torch.split(torch.arange(len(case), device=genes.device), at_once):
            part = case.part(index)
            probs = case.view.probs(self._inputs(part, genes[index]).flatten(0, 1))
            scores = probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
            each = replace(part, goal=part.goal.repeat_interleave(population))
            leads.append(each.lead(scores).view(-1, population))
            reaches.append(each.reached(scores).view(-1, population))
        return torch.cat(leads), torch.cat(reaches)

    def _places(self, case: Case[Scores], genes: torch.Tensor) -> torch.Tensor:
        """Which pixels the candidates change, `(n, population, pixels)`, counted row by row."""
        _, height, width = _grid(case.original)
        size = genes.new_tensor([height, width])
        rows, columns = (genes[..., :2] * size).floor().long().minimum(size.long() - 1).unbind(dim=-1)
        return rows * width + columns

    def _inputs(self, case: Case[Scores], genes: torch.Tensor) -> torch.Tensor:
        """The candidates as inputs, `(n, population, ...)`."""
        channels = _grid(case.original)[0]
        place = self._places(case, genes)[:, :, None].expand(-1, -1, channels, -1)
        low, high = (end.reshape(channels, -1)[:, place[:, :, 0]].permute(1, 2, 0, 3) for end in self.span)
        value = low + (high - low) * genes[..., 2:].transpose(2, 3)
        x = case.original.reshape(len(genes), 1, channels, -1).repeat(1, genes.shape[1], 1, 1).scatter(3, place, value)
        x = x.view(*genes.shape[:2], *case.original.shape[1:])
        return x if case.allowed is None else torch.where(case.allowed[:, None], x, case.original[:, None])


def _grid(x: torch.Tensor) -> tuple[int, int, int]:
    """Channels, height and width of images `x: (n, c, h, w)`; anything else is one row of values."""
    return (x.shape[1], x.shape[2], x.shape[3]) if x.ndim == 4 else (1, 1, x[0].numel())
