"""HotFlip: exactly what all exchanges show on a linear model, and nothing that a fresh pass does not confirm."""

from __future__ import annotations

from itertools import combinations, product

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.attack import HotFlip
from modelkeep.core.errors import InputError
from texts import TOKENIZER, VALUES, lstm, sentences, sentiment

WORDS = range(2, TOKENIZER.size)


def can_fall(model: Model, data: Data, words: int) -> list[bool]:
    """By brute force: whether any exchange of up to `words` words changes the answer."""
    fallen = []
    for row, label in zip(data.x, data.y, strict=True):
        length = int(row[TOKENIZER.length :].sum())
        tried = []
        for places in combinations(range(length), min(words, length)):
            for others in product(WORDS, repeat=len(places)):
                changed = row.clone()
                changed[list(places)] = torch.tensor(others, dtype=torch.float32)
                tried.append(changed)
        fallen.append(bool((model.predict(torch.stack(tried)) != label).any()))
    return fallen


@pytest.mark.parametrize("words", [1, 2])
def test_on_a_linear_model_it_finds_what_brute_force_finds(words: int) -> None:
    model = sentiment()
    data = sentences(model)
    found = HotFlip(words=words)(model, data)
    assert found.success.tolist() == can_fall(model, data, words)
    assert 0 < int(found.success.sum()) < len(data)


def test_the_first_exchange_is_the_steepest() -> None:
    model = sentiment()
    found = HotFlip(words=1, candidates=1)(model, sentences(model, ("the film fine",)))
    (text,) = found.texts
    assert text.changes == (("fine", "awful"),)
    assert str(text) == "fine → awful"
    assert ("words of text 0", "fine → awful") in found.rows()


def test_it_wins_nothing_that_brute_force_does_not_and_all_is_verified() -> None:
    model = lstm()
    data = sentences(model)
    found = HotFlip(words=1, candidates=80)(model, data)
    assert found.success.tolist() == can_fall(model, data, 1)  # with all exchanges among the candidates
    assert torch.equal(model.predict(found.adversarial), found.after)
    assert (found.distance <= 1).all()


def test_padding_masks_and_special_tokens_stay() -> None:
    model = sentiment()
    data = sentences(model, ("the film fine", "good unknown"))
    found = HotFlip(words=3)(model, data)
    ids, moved = data.x[:, :5], found.adversarial[:, :5]
    assert torch.equal(found.adversarial[:, 5:], data.x[:, 5:])
    assert torch.equal(moved[ids < 2], ids[ids < 2])
    assert (moved[ids >= 2] >= 2).all()


def test_the_changed_text_is_read_as_the_same_ids_again() -> None:
    model = sentiment()
    found = HotFlip(words=2)(model, sentences(model))
    assert model.nest is not None
    for text in found.texts:
        again = model.nest.pack(TOKENIZER.encode([" ".join(after for _, after in text.words)]))
        assert torch.equal(again[0], found.adversarial[text.index])
        assert all(before in VALUES for before, _ in text.words)


def test_a_mask_of_the_user_and_a_target_hold() -> None:
    model = sentiment()
    data = sentences(model)
    closed = HotFlip(words=3, mask=torch.zeros(10, dtype=torch.bool))(model, data)
    assert not closed.success.any()
    aimed = HotFlip(words=2, target="negative")(model, data)
    assert (aimed.after[aimed.success] == 0).all()


def test_a_model_of_pictures_is_refused_in_a_sentence() -> None:
    model = Model(torch.nn.Linear(4, 2), input_shape=(4,), classes=2)
    with pytest.raises(InputError, match="HotFlip works on the words of a text, and this model takes none"):
        HotFlip()(model, Data(torch.rand(2, 4), torch.tensor([0, 1]), model.classes))
