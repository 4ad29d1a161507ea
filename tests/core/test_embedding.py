"""The embedding of a text model is found by what enters it, not by its name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Leaf, Model, Nest
from modelkeep.attack import PGD, Square
from modelkeep.core.embedding import EMBEDDING, find_embedding, free_values
from modelkeep.core.errors import InputError
from modelkeep.zoo.architectures import minilm
from texts import lstm


class Shared(nn.Module):
    """Two embeddings of the same ids: neither is the one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(9, 2), nn.Embedding(9, 2)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        mean: torch.Tensor = (self.first(input_ids) + self.second(input_ids)).mean(dim=1)
        return mean


def test_words_and_not_positions() -> None:
    sizes = {
        "vocab_size": 9,
        "hidden_size": 4,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 4,
    }
    nest = Nest((Leaf("input_ids", (3,), "token", 9), Leaf("attention_mask", (3,), "mask")))
    bert = Model(minilm(2, sizes=sizes), inputs=nest, classes=2)
    assert find_embedding(bert) == "body.embeddings.word_embeddings"
    assert find_embedding(lstm()) == "embedding"


def test_what_is_not_clear_is_an_error() -> None:
    model = Model(Shared(), inputs=Nest((Leaf("input_ids", (3,), "token", 9),)), classes=2)
    with pytest.raises(InputError, match=r"should enter one nn\.Embedding of the network\. They enter first, second"):
        find_embedding(model)
    with pytest.raises(InputError, match="this model takes none"):
        find_embedding(Model(nn.Linear(2, 2), input_shape=(2,), classes=2))


class Mean(nn.Module):
    """The mean of the embedded words, real numbers beside them: logits that are linear in both."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.words, self.head = nn.Embedding(20, 6), nn.Linear(6, 3)
        for weight in self.parameters():
            weight.data = torch.randn(weight.shape, generator=generator)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kept = mask[..., None].float()
        logits: torch.Tensor = self.head((self.words(ids) * kept).sum(1) / kept.sum(1))
        return logits


def mean_model() -> tuple[Model, Data]:
    nest = Nest((Leaf("ids", (5,), "token", 20), Leaf("mask", (5,), "mask")))
    model = Model(Mean(), inputs=nest, classes=3)
    ids = torch.randint(20, (12, 5), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(5) < torch.arange(12)[:, None] % 4 + 2).long()
    x = nest.pack({"ids": ids, "mask": mask})
    return model, Data(x, model.predict(x), model.classes, nest=nest)


def test_at_the_embedding_of_the_ids_the_model_is_the_same() -> None:
    model, data = mean_model()
    there, given = model.at_embedding(), model.embed(data)
    assert there.nest == given.nest
    assert torch.equal(there.logits(given.x), model.logits(data.x))
    assert set(there.module.state_dict()) == set(model.module.state_dict())
    moved = given.x.clone()
    assert given.nest is not None
    moved[:, given.nest.columns(EMBEDDING)] += 1.0
    z = model.module.get_submodule("words")(given.nest.unpack(moved)["ids"]) + 1.0
    kept = given.nest.unpack(moved)["mask"][..., None].float()
    wanted = model.module.get_submodule("head")((z * kept).sum(1) / kept.sum(1))
    torch.testing.assert_close(there.logits(moved), wanted.detach())
    assert torch.equal(model.logits(data.x), there.logits(given.x))  # the hook is gone


def test_a_ball_attack_on_tokens_works_at_the_embedding_and_leaves_padding() -> None:
    model, data = mean_model()
    there, given = model.at_embedding(), model.embed(data)
    nest = there.nest
    assert nest is not None
    free = free_values(nest, given.x)
    assert free is not None
    for attack in (PGD(radius=2.0, steps=10), Square(radius=2.0, queries=50)):
        found = attack(model, data, seed=0)
        assert (found.after != data.y).any()
        assert torch.equal(found.adversarial[~free], given.x[~free])
        assert (found.provenance.model, found.provenance.data) == (model.fingerprint(), data.fingerprint())
        assert torch.equal(there.predict(found.adversarial), found.after)
    n, depth = nest.unpack(given.x)["mask"].sum(1), 6
    assert torch.equal(free[:, nest.columns(EMBEDDING)].sum(1), n * depth)
    with pytest.raises(InputError, match="says nothing about their embedding"):
        PGD(radius=1.0, mask=torch.ones(10, dtype=torch.bool))(model, data)


def test_real_leaves_are_attacked_where_they_are() -> None:
    class Both(Mean):
        def forward(self, ids: torch.Tensor, mask: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(ids, mask) + shift

    nest = Nest((Leaf("ids", (5,), "token", 20), Leaf("mask", (5,), "mask"), Leaf("shift", (3,))))
    model = Model(Both(), inputs=nest, classes=3)
    x = nest.pack({"ids": torch.arange(20).view(4, 5), "mask": torch.ones(4, 5), "shift": torch.zeros(4, 3)})
    data = Data(x, model.predict(x), model.classes)
    found = PGD(radius=1.0, steps=5)(model, data, seed=0)
    assert torch.equal(found.adversarial[:, :10], x[:, :10])
    top = model.logits(x).topk(2).values
    assert torch.equal(found.after != data.y, top[:, 0] - top[:, 1] < 2.0)  # two shifts of one each
