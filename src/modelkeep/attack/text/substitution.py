"""Substitution: exchange the words that count most for their neighbours, by scores alone (Jin2020, TextFooler)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from modelkeep.attack.case import Case, Search
from modelkeep.attack.text.base import TextAttack, free_positions
from modelkeep.attack.text.synonyms import nearest_words
from modelkeep.core.access import Scores
from modelkeep.core.data import Data
from modelkeep.core.embedding import token_leaf
from modelkeep.core.errors import InputError, Remedy
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model


@declare("attack", "substitution", access="scores", paper="Jin2020", extra="text")
class Substitution(TextAttack):
    """Exchanges the words that count most for near ones, by scores alone.

    How much a word counts is what the answer loses without it. Its neighbours come from a public embedding, not from
    the model, or from a list of yours.
    """

    cheap: ClassVar[dict[str, Any]] = {"words": 2, "candidates": 3}

    candidates: int = setting("Neighbours of each word that are tried.", default=20, at_least=1)
    similarity: float = setting(
        "The smallest cosine between a word and its neighbour.", default=0.5, at_least=-1, at_most=1
    )
    synonyms: Mapping[str, Sequence[str]] | None = setting(
        "A list of your own: what each word may become; else the nearest words in MiniLM's embedding.", default=None
    )

    def searches(self, model: Model, data: Data) -> list[Search]:
        """One greedy search, with the neighbours of the words that occur in the data."""
        leaf = token_leaf(model, self.title)
        assert model.nest is not None
        columns = model.nest.columns(leaf.name)
        if data.tokenizer is None:
            raise InputError(
                f"{self.title} needs to know the words of '{data.name}', which has no tokenizer.",
                remedy=Remedy(
                    "Load the texts with the model's tokenizer: datasets.open(…, text=…, tokenizer=…).",
                    "Name the column of the texts and the model's tokenizer: --text COLUMN --tokenizer FILE.",
                ),
            )
        free = free_positions(model, data, self.title)[:, columns]
        ids = sorted(set(data.x[:, columns].long()[free].tolist()))
        if self.synonyms is None:
            near = nearest_words(data.tokenizer, ids, count=self.candidates, similarity=self.similarity, size=leaf.size)
        else:
            near = _listed(self.synonyms, data, ids)
        return [_Greedy(self, columns, min(data.tokenizer.special, default=0), near)]


def _listed(synonyms: Mapping[str, Sequence[str]], data: Data, ids: Sequence[int]) -> dict[int, list[int]]:
    """The user's list in ids. What is not one word of the tokenizer cannot be put in the place of one."""
    assert data.tokenizer is not None
    numbers = {word: i for i, word in enumerate(data.tokenizer.decode(range(data.tokenizer.size)))}
    names = dict(zip(ids, data.tokenizer.decode(ids), strict=True))
    return {i: [numbers[each] for each in synonyms.get(names[i], ()) if each in numbers] for i in ids}


@dataclass(frozen=True)
class _Greedy:
    """The inner loop: text by text, the word that counts most first."""

    settings: Substitution
    columns: slice
    blank: int
    near: Mapping[int, Sequence[int]] = field(repr=False)
    title: ClassVar[str] = "Substitution"
    sees: ClassVar[type[Scores]] = Scores

    def search(self, case: Case[Scores], /) -> torch.Tensor:
        """The changed texts, packed `(n, width)`."""
        rows = torch.arange(len(case), device=case.original.device)
        return torch.cat([self._exchange(case.part(rows[i : i + 1])) for i in range(len(case))])

    def _exchange(self, case: Case[Scores]) -> torch.Tensor:
        """One text `(1, width)` with up to `words` exchanges."""
        x, changed = case.original[0].clone(), 0
        lead = float(self._ask(case, x[None])[0][0])
        for place in self._by_importance(case, x):
            others = self.near.get(int(x[place]), ())
            if not others:
                continue
            tried = x.repeat(len(others), 1)
            tried[:, place] = torch.tensor(others, dtype=x.dtype, device=x.device)
            leads, reached = self._ask(case, tried)
            if reached.any():  # of those that suffice, the nearest word
                return tried[int(reached.nonzero()[0])][None]
            if float(leads.max()) > lead:
                lead, x, changed = float(leads.max()), tried[int(leads.argmax())], changed + 1
            if changed == self.settings.words:
                break
        return x[None]

    def _by_importance(self, case: Case[Scores], x: torch.Tensor) -> list[int]:
        """The places that may change, the one first without which the wanted answer leads most."""
        first, last = self.columns.start, self.columns.stop
        places = torch.arange(first, last, device=x.device)
        if case.allowed is not None:
            places = places[case.allowed[0, first:last]]
        if len(places) == 0:
            return []
        without = x.repeat(len(places), 1)
        without[torch.arange(len(places), device=x.device), places] = float(self.blank)
        leads, _ = self._ask(case, without)
        return [int(places[i]) for i in leads.argsort(descending=True, stable=True)]

    def _ask(self, case: Case[Scores], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """How far the wanted answer leads for each of `x`, and whether that is far enough."""
        probs = case.view.probs(x)
        scores = probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
        each = replace(case, goal=case.goal.expand(len(x)))
        return each.lead(scores), each.reached(scores)
