"""MiniLM's network: Hugging Face's BertModel under our head."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.core.nest import Leaf, Nest
from modelkeep.zoo.architectures import minilm

SMALL = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}


def test_the_head_reads_the_mean_of_berts_states() -> None:
    torch.manual_seed(0)
    module = minilm(3, hidden=4, sizes=SMALL).eval()
    ids, mask = torch.tensor([[5, 6, 7, 0], [8, 9, 1, 2]]), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    parts = dict(module.named_children())
    alone = parts["body"](input_ids=ids[:1, :3]).last_hidden_state  # without padding and without a mask
    expected = parts["head"](alone.mean(dim=1))
    torch.testing.assert_close(module(ids, mask)[:1], expected)


def test_a_head_without_hidden_units_is_linear() -> None:
    head = minilm(3, hidden=0, sizes=SMALL).get_submodule("head")
    assert {name: tuple(each.shape) for name, each in head.named_parameters()} == {
        "logits.weight": (3, 8),
        "logits.bias": (3,),
    }


def test_what_comes_after_the_body_runs_without_it() -> None:
    """torch.fx cannot follow Hugging Face's BertModel; the head needs no pass of it."""
    torch.manual_seed(0)
    nest = Nest((Leaf("input_ids", (4,), "token", 50), Leaf("attention_mask", (4,), "mask")))
    model = Model(minilm(3, hidden=0, sizes=SMALL), inputs=nest, classes=3)
    cut, x = model.slice("mean"), model.probe()
    states = cut.h(x)
    passes: list[object] = []
    model.module.get_submodule("body").register_forward_hook(lambda *_: passes.append(_))
    assert torch.equal(cut.g(states), model.logits(x))
    assert len(passes) == 1  # that of the logits
    inner = model.slice("body.encoder.layer.1")
    assert torch.equal(inner.g(inner.h(x)), model.logits(x))


def test_a_classifier_has_two_classes() -> None:
    with pytest.raises(InputError, match="'classes' parameter of minilm"):
        minilm(1, sizes=SMALL)
