"""TextAttack: what attacks on texts share. Few words may change; padding and special tokens never do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.frame import carry_out
from modelkeep.attack.result import Attacked
from modelkeep.core.data import Data
from modelkeep.core.embedding import token_leaf
from modelkeep.core.method import setting
from modelkeep.core.model import Model
from modelkeep.core.norms import AnyNorm, Ball
from modelkeep.core.tokenizer import CONTINUES, Tokenizer


@dataclass(frozen=True)
class Vocabulary:
    """What is known of each of the ids: whether it is a whole word, and whether it continues one. Both `(size,)`."""

    is_word: torch.Tensor
    continues: torch.Tensor

    @classmethod
    def of(cls, tokenizer: Tokenizer | None, size: int) -> Vocabulary:
        """Whole words are letters alone, so that a changed text is read as the same ids again.

        Without a tokenizer every id counts as a word.
        """
        if tokenizer is None:
            return cls(torch.ones(size, dtype=torch.bool), torch.zeros(size, dtype=torch.bool))
        pieces = tokenizer.decode(range(min(size, tokenizer.size)))
        pieces += [""] * (size - len(pieces))  # a network may have more rows than its tokenizer has words
        words = [number not in tokenizer.special and piece.isalpha() for number, piece in enumerate(pieces)]
        return cls(torch.tensor(words), torch.tensor([piece.startswith(CONTINUES) for piece in pieces]))


@dataclass(frozen=True, kw_only=True)
class TextAttack(Attack):
    """An attack that exchanges up to `words` whole words of each text."""

    of_texts: ClassVar[bool] = True
    cheap: ClassVar[dict[str, Any]] = {"words": 2}

    norm: AnyNorm = norm_setting("l0")
    words: int = setting("How many words of a text may change.", default=3, at_least=1)
    batch_size: int = setting("Texts that are run at once.", default=16, at_least=1)

    def ball(self, model: Model) -> Ball:
        """Texts with at most `words` other words."""
        return Ball("l0", self.words, None)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Attacked:
        """Attack the texts of `data`. The model is left as it was."""
        model.require_fit(data)
        free = free_positions(model, data, self.title)
        return carry_out(
            model,
            data,
            self.searches(model, data),
            attack=self.title,
            ball=self.ball(model),
            target=self.target,
            mask=free if self.mask is None else free & self.mask.expand_as(free),
            batch_size=self.batch_size,
            draws=self.draws,
            seed=seed,
        )


def free_positions(model: Model, data: Data, who: str) -> torch.Tensor:
    """True in the packed rows `(n, width)` where a whole word stands that may be exchanged."""
    leaf = token_leaf(model, who)
    nest = model.nest
    assert nest is not None
    assert leaf.size is not None
    tensors = nest.unpack(model.check_inputs(data.x).cpu())
    ids = tensors[leaf.name]
    known = Vocabulary.of(data.tokenizer, leaf.size)
    goes_on = known.continues[ids].roll(-1, dims=1)
    goes_on[:, -1] = False
    free = known.is_word[ids] & ~goes_on
    for other in nest.leaves:
        if other.kind == "mask" and other.shape == leaf.shape:
            free &= tensors[other.name] == 1
    allowed = torch.zeros(len(ids), nest.width, dtype=torch.bool)
    allowed[:, nest.columns(leaf.name)] = free
    return allowed
