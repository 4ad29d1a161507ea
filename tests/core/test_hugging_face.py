"""Hugging Face's own classes, with small random weights: asked, cut and explained like any other network."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Data, Leaf, Model, Nest
from modelkeep.attack import PGD
from modelkeep.explain import ClassScore, Influence

transformers = pytest.importorskip("transformers")
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
NEST = Nest((Leaf("input_ids", (8,), "token", 60), Leaf("attention_mask", (8,), "mask")))


def bert() -> tuple[torch.nn.Module, Model, Data]:
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=60, max_position_embeddings=12, num_labels=3, **SMALL)
    module = transformers.BertForSequenceClassification(config).eval()
    model = Model(module, inputs=NEST, classes=3)
    mask = torch.ones(5, 8, dtype=torch.int64)
    mask[:, 6:] = 0
    x = NEST.pack({"input_ids": torch.randint(60, (5, 8)), "attention_mask": mask})
    return module, model, Data(x, model.predict(x), model.classes, nest=NEST)


def test_a_text_classifier_is_cut_exactly_at_every_module() -> None:
    module, model, data = bert()
    with torch.no_grad():
        assert torch.equal(model.logits(data.x), module(**NEST.unpack(data.x)).logits)
    places = model.slices()
    assert {"bert.embeddings.word_embeddings", "bert.encoder.layer.0", "bert.pooler", "classifier"} <= set(places)
    for place in places:
        cut = model.slice(place)
        assert torch.equal(cut.g(cut.h(data.x)), model.forward(data.x)), place


def test_influence_at_the_embedding_is_autograds() -> None:
    module, model, data = bert()
    place = "bert.embeddings.word_embeddings"
    found = Influence(slice=place, quantity=ClassScore("1"))(model, data)
    tensors = NEST.unpack(data.x)
    z = module.get_submodule(place)(tensors["input_ids"]).detach().requires_grad_()
    logits = module(inputs_embeds=z, attention_mask=tensors["attention_mask"]).logits
    (wanted,) = torch.autograd.grad(logits[:, 1].sum(), z)
    torch.testing.assert_close(found.influence, wanted)


def test_a_text_classifier_is_attacked_at_its_embedding() -> None:
    _, model, data = bert()
    found = PGD(radius=1.0, steps=5)(model, data, seed=0)
    assert found.adversarial.shape == (5, 16 + 8 * 16)


def test_an_image_classifier_is_cut_and_attacked() -> None:
    torch.manual_seed(0)
    config = transformers.ViTConfig(image_size=16, patch_size=4, num_labels=4, **SMALL)
    module = transformers.ViTForImageClassification(config).eval()
    model = Model(module, input_shape=(3, 16, 16), classes=4)
    x = torch.rand(3, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(model.logits(x), module(x).logits)
    for place in model.slices():
        if not place.endswith("dropout"):  # called more than once
            cut = model.slice(place)
            assert torch.equal(cut.g(cut.h(x)), model.forward(x)), place
    found = Influence(quantity=ClassScore("2"))(model, x)
    again = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(module(again).logits[:, 2].sum(), again)
    torch.testing.assert_close(found.influence, wanted)
    data = Data(x, model.predict(x), model.classes)
    assert PGD(radius=0.1, steps=3)(model, data, seed=0).gradients > 0
