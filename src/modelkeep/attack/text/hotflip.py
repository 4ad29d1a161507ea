"""HotFlip: exchange the words for which the gradient at the embedding promises most (Ebrahimi2018)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import nn

from modelkeep.attack.adaptive import victim_of
from modelkeep.attack.case import Case, Search
from modelkeep.attack.text.base import TextAttack, Vocabulary
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.embedding import find_embedding, token_leaf
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model

# Promises of all words at all positions of a text are computed at once; so many of them fit well in memory.
_NUMBERS_AT_ONCE = 2**24


@declare("attack", "hotflip", access="weights", paper="Ebrahimi2018")
class HotFlip(TextAttack):
    """Exchanges words by the gradient at the embedding; the most promising exchanges are tried.

    The words need not mean the same: it asks whether any few words change the answer.
    """

    cheap: ClassVar[dict[str, Any]] = {"words": 2, "candidates": 3}

    candidates: int = setting("Exchanges that are tried at each step, of the most promising.", default=10, at_least=1)

    def searches(self, model: Model, data: Data) -> list[Search]:
        """One greedy search, with the words that the data's tokenizer knows."""
        leaf = token_leaf(model, self.title)
        assert model.nest is not None
        assert leaf.size is not None
        words = Vocabulary.of(data.tokenizer, leaf.size).is_word
        return [_Flips(self, find_embedding(model), model.nest.columns(leaf.name), words)]


@dataclass(frozen=True)
class _Flips:
    """The inner loop: one exchange after the other, each the best of those that were tried."""

    settings: HotFlip
    embedding: str
    columns: slice
    words: torch.Tensor = field(repr=False)
    title: ClassVar[str] = "HotFlip"
    sees: ClassVar[type[Weights]] = Weights

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The changed texts, packed `(n, width)`."""
        x, active = case.original.clone(), torch.arange(len(case), device=case.original.device)
        open_positions = torch.ones_like(x, dtype=torch.bool) if case.allowed is None else case.allowed.clone()
        for step in range(self.settings.words):
            going = case.part(active)
            slope, rows = self._slope(going, x[active])
            if step == 0:
                case.health.see_gradient(slope)
            places, words = self._promising(self._layer(going).weight, slope, rows, x[active], open_positions[active])
            lead, reached, chosen = self._try(going, x[active], places, words, open_positions[active])
            best = lead.argmax(dim=1)
            index = torch.arange(len(active), device=x.device)
            x[active] = chosen[index, best]
            open_positions[active, self.columns.start + places[index, best]] = False
            solved = reached[index, best]
            if solved.any():
                case.health.see_solved(step, int(solved.sum()), self.settings.words)
            active = active[~solved]
            if len(active) == 0:
                break
        return x

    def _slope(self, case: Case[Weights], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradient of the gain at the output of the embedding, and that output: `(n, length, width)` both."""
        caught: list[torch.Tensor] = []

        def catch(_: nn.Module, __: Any, output: torch.Tensor) -> torch.Tensor:
            caught.append(output.detach().requires_grad_())
            return caught[-1]

        handle = self._layer(case).register_forward_hook(catch)
        try:
            with torch.enable_grad():
                gain = case.gain(case.view.forward(x)).sum()
                slope = sum(torch.autograd.grad(gain, caught), torch.zeros(()))  # one pass per draw of a random model
        finally:
            handle.remove()
        case.health.gradients += len(x)
        return torch.nan_to_num(slope), caught[0].detach()

    def _layer(self, case: Case[Weights]) -> nn.Embedding:
        layer = victim_of(case.view.model).module.get_submodule(self.embedding)
        assert isinstance(layer, nn.Embedding)
        return layer

    def _promising(
        self,
        weight: torch.Tensor,
        slope: torch.Tensor,
        rows: torch.Tensor,
        x: torch.Tensor,
        open_positions: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The positions and words `(n, candidates)` with the highest first-order gain, slope · (new − old)."""
        table = weight[: len(self.words)]
        count = min(self.settings.candidates, slope.shape[1] * len(table))
        at_once = max(1, _NUMBERS_AT_ONCE // (slope.shape[1] * len(table)))
        parts = []
        for i in range(0, len(slope), at_once):
            each = slice(i, i + at_once)
            gain = slope[each] @ table.T - (slope[each] * rows[each]).sum(dim=2, keepdim=True)
            gain.masked_fill_(~self.words.to(gain.device), -torch.inf)
            gain.masked_fill_(~open_positions[each, self.columns][:, :, None], -torch.inf)
            gain.scatter_(2, x[each, self.columns].round().long()[:, :, None], -torch.inf)  # itself is no exchange
            parts.append(gain.flatten(1).topk(count, dim=1).indices)
        best = torch.cat(parts)
        return best // len(table), best % len(table)

    def _try(
        self,
        case: Case[Weights],
        x: torch.Tensor,
        places: torch.Tensor,
        words: torch.Tensor,
        open_positions: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """How far each exchange leads, whether that is far enough `(n, candidates)`, and the texts."""
        n, count = places.shape
        columns = self.columns.start + places
        tried = x[:, None].repeat(1, count, 1)
        old = tried.gather(2, columns[..., None])
        may = open_positions.gather(1, columns)[..., None]  # where no position is open, a text stays as it is
        tried.scatter_(2, columns[..., None], torch.where(may, words[..., None].to(x.dtype), old))
        with torch.no_grad():
            logits = case.view.forward(tried.flatten(0, 1))
        each = replace(case, goal=case.goal.repeat_interleave(count))
        return each.lead(logits).view(n, count), each.reached(logits).view(n, count), tried
