"""A nest packs tensors by name without loss, refuses what does not fit, and a model with one is asked by name."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.core.nest import EXACT, Leaf, Nest

NEST = Nest((Leaf("ids", (5,), "token", 50), Leaf("mask", (5,), "mask"), Leaf("extra", (2, 3))))


class Words(nn.Module):
    """Mean of the embedded words that the mask keeps, and real numbers beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.head = nn.Linear(8 + 6, 3)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, extra: torch.Tensor) -> torch.Tensor:
        kept = mask[..., None].to(extra.dtype)
        mean = (self.embedding(ids) * kept).sum(1) / kept.sum(1)
        logits: torch.Tensor = self.head(torch.cat([mean, extra.flatten(1)], dim=1))
        return logits


def words_module() -> Words:
    """A factory for `Model.load`."""
    return Words()


def tensors(n: int = 4, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(n, 5, dtype=torch.int64)
    mask[:, 3:] = 0
    return {
        "ids": torch.randint(50, (n, 5), generator=generator),
        "mask": mask,
        "extra": torch.randn(n, 2, 3, generator=generator),
    }


def words_model() -> Model:
    torch.manual_seed(0)
    return Model(Words(), inputs=NEST, classes=("a", "b", "c"))


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["real", "token", "mask", "integer"])), min_size=1, max_size=4
    )
)
def test_packing_loses_nothing(drawn: list[tuple[int, Any]]) -> None:
    leaves = [
        Leaf(f"leaf{i}", (width, 2), kind, EXACT if kind in ("token", "integer") else None)
        for i, (width, kind) in enumerate(drawn)
    ]
    nest = Nest(tuple(leaves))
    given = {}
    for leaf in leaves:
        whole = torch.randint(leaf.values, (3, *leaf.shape))
        given[leaf.name] = torch.randn(3, *leaf.shape) if leaf.kind == "real" else whole
    packed = nest.pack(given)
    assert packed.shape == (3, nest.width)
    nest.check(packed)
    for leaf in leaves:
        assert torch.equal(nest.unpack(packed)[leaf.name], given[leaf.name])
        assert torch.equal(packed[:, nest.columns(leaf.name)], given[leaf.name].flatten(1).float())
    nest.check(nest.draw(2, None, torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": torch.full((4, 5), 50)}, r"'ids' must lie in 0\.\.49. Got 50"),
        ({"ids": torch.full((4, 5), 1.5)}, "'ids' must be whole numbers"),
        ({"mask": torch.full((4, 5), 2)}, r"'mask' must lie in 0\.\.1"),
        ({"mask": torch.ones(4, 6)}, r"'mask' must have shape \(4, 5\)"),
        ({"extra": torch.ones(3, 2, 3)}, r"'extra' must have shape \(4, 2, 3\), as the first leaf has 4"),
        ({"token_type_ids": torch.ones(4, 5)}, "made of ids, mask, extra. Got ids, mask, extra, token_type_ids"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        words_model().predict({**tensors(), **change})


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        (("input ids", (3,), "real", None), "called as a parameter"),
        (("ids", (3,), "token", None), "needs its `size`"),
        (("mask", (3,), "mask", 2), "others have none"),
        (("ids", (3,), "integer", 2 * EXACT), "from 1 to 16777216"),
        (("ids", (0,), "real", None), "at least 1"),
        (("ids", (3,), "text", None), "real, token, mask or integer"),
    ],
)
def test_bad_leaves_are_refused(leaf: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Leaf(*leaf)


def test_a_model_is_asked_by_name_or_packed() -> None:
    model = words_model()
    module, by_name = model.module, tensors()
    expected = Words.forward(module.adapted_owner, **by_name)  # type: ignore[arg-type]
    assert torch.equal(model.logits(by_name), expected)
    assert torch.equal(model.logits(NEST.pack(by_name)), expected)
    assert (model.input_shape, model.bounds) == ((NEST.width,), None)
    assert set(module.state_dict()) == {"embedding.weight", "head.weight", "head.bias"}
    broken = NEST.pack(by_name)
    broken[0, 0] += 0.5
    with pytest.raises(InputError, match="whole numbers"):
        model.predict(broken)
    with pytest.raises(InputError, match=r"shape \(n, 16\). Got \(2, 5\). Pack the tensors by name"):
        model.predict(torch.zeros(2, 5))


def test_gradients_reach_the_real_leaves_only() -> None:
    x = NEST.pack(tensors()).requires_grad_()
    (gradient,) = torch.autograd.grad(words_model().forward(x)[:, 0].sum(), x)
    free = NEST.free()
    assert free is not None
    assert (gradient[:, free] != 0).all()
    assert (gradient[:, ~free] == 0).all()
    assert Nest((Leaf("x", (2,)),)).free() is None


def test_a_packed_input_keeps_its_tokens_in_half_precision() -> None:
    nest = Nest((Leaf("ids", (1,), "token", 5000), Leaf("mask", (1,), "mask"), Leaf("extra", (2, 3))))
    module = Words()
    module.embedding = nn.Embedding(5000, 8)
    model = Model(module.bfloat16(), inputs=nest, classes=3)
    ids = torch.tensor([[4097], [4098]])  # the same number in bfloat16
    given = {"ids": ids, "mask": torch.ones(2, 1), "extra": torch.zeros(2, 2, 3)}
    assert model.dtype == torch.float32
    logits = model.logits(given)
    assert logits.dtype == torch.bfloat16
    assert not torch.equal(logits[0], logits[1])


def test_copies_modes_and_weights_are_the_owners(tmp_path: Path) -> None:
    model = words_model()
    again = Model.from_card(copy.deepcopy(model.module), model.card)
    with torch.no_grad():
        again.module.get_parameter("head.weight").zero_()
    assert (again.logits(tensors()) == again.logits(tensors())[0]).all()
    assert not (model.logits(tensors()) == model.logits(tensors())[0]).all()
    model.module.train()
    assert model.module.adapted_owner.training  # type: ignore[union-attr]
    with model.frozen(0):
        assert not model.module.adapted_owner.training  # type: ignore[union-attr]
    assert model.module.training
    model.module.eval()
    model.save(tmp_path / "words.safetensors")
    loaded = Model.load("core.test_nest:words_module", weights=tmp_path / "words.safetensors")
    assert loaded.nest == NEST
    assert torch.equal(loaded.logits(tensors()), model.logits(tensors()))


def test_a_packed_model_fits_packed_data() -> None:
    model = words_model()
    data = Data(NEST.pack(tensors()), torch.tensor([0, 1, 2, 0]), model.classes)
    model.require_fit(data)
    with pytest.raises(InputError, match=r"Pack the tensors by name"):
        model.require_fit(Data(torch.zeros(2, 3), torch.tensor([0, 1]), model.classes))
    turned = replace(data, nest=Nest(NEST.leaves[::-1]))
    with pytest.raises(InputError, match="in the same order"):
        model.require_fit(turned)


def test_the_fingerprint_knows_the_nest_and_plain_models_keep_theirs() -> None:
    model = words_model()
    other = Nest((*NEST.leaves[:2], Leaf("extra", (2, 3), "real")))
    assert Model(model.module, inputs=other, classes=model.classes).fingerprint() == model.fingerprint()
    wider = Nest((Leaf("ids", (5,), "token", 49), *NEST.leaves[1:]))
    assert Model(model.module, inputs=wider, classes=model.classes).fingerprint() != model.fingerprint()
    assert "inputs" not in Model(nn.Linear(2, 2), input_shape=(2,), classes=2).card.told()
