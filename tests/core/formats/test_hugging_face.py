"""Folders of Hugging Face are read by its own loading code, and built again from the config alone; no code is run."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from modelkeep.core.errors import ModelError
from modelkeep.core.formats import read
from modelkeep.core.formats.hugging_face import build_hugging_face

transformers = pytest.importorskip("transformers")
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
IMAGES = "transformers:AutoModelForImageClassification"


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "vit"
    names = [f"class {i}" for i in range(12)]  # more than ten: as texts, their numbers have another order
    config = transformers.ViTConfig(**SMALL, image_size=16, patch_size=8, id2label=dict(enumerate(names)))
    torch.manual_seed(0)
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    processor = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "size": {"height": 16, "width": 16}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "bert"
    config = transformers.BertConfig(**SMALL, vocab_size=50, max_position_embeddings=24)
    torch.manual_seed(0)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_picture_classifier_with_its_names_and_its_normalisation(vit: Path) -> None:
    found = read(vit, card={})
    card = found.card()
    assert card.classes == tuple(f"class {i}" for i in range(12))
    assert card.input_shape == (3, 16, 16)
    assert card.preprocessing.mean == pytest.approx((0.5, 0.4, 0.3))
    theirs = transformers.AutoModelForImageClassification.from_pretrained(vit, local_files_only=True).eval()
    x = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(found.open()[0].eval()(x).logits, theirs(x).logits)
    assert found.drawn == ()


def test_the_network_is_built_again_from_its_card(vit: Path) -> None:
    found = read(vit, card={})
    card = found.card()
    stored = json.loads(json.dumps(card.arguments))
    assert stored == card.arguments  # nothing changes on the way through a header
    again = build_hugging_face(str(card.architecture), stored, "test").eval()
    again.load_state_dict(found.open()[0].state_dict())
    x = torch.rand(2, 3, 16, 16)
    assert torch.equal(again(x).logits, found.open()[0].eval()(x).logits)


def test_a_text_classifier_takes_ids_and_a_mask(bert: Path) -> None:
    nest = read(bert, card={}).card().inputs
    assert nest is not None
    assert [(leaf.name, leaf.shape, leaf.kind, leaf.size) for leaf in nest.leaves] == [
        ("input_ids", (24,), "token", 50),
        ("attention_mask", (24,), "mask", None),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "a network without a classifier"),
        ({"architectures": ["LlamaForCausalLM"]}, "is made for generation"),
        ({"architectures": ["DetrForObjectDetection"]}, "is made for detection"),
        ({"problem_type": "multi_label_classification"}, "is made for multi-label classification"),
        ({"problem_type": "regression"}, "is made for regression"),
        ({"id2label": {"0": "score"}}, "is made for regression"),
        ({"architectures": None}, "a network that it does not name"),
    ],
)
def test_what_is_no_classifier_is_refused_by_name(
    changes: dict[str, Any], message: str, bert: Path, tmp_path: Path
) -> None:
    told = json.loads((bert / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(told))
    with pytest.raises(ModelError, match=message) as refused:
        read(tmp_path, card={})
    assert "docs/formats.md" in str(refused.value)


def test_a_head_without_weights_is_not_drawn_at_random(bert: Path, tmp_path: Path) -> None:
    base = transformers.BertModel(transformers.BertConfig(**SMALL, vocab_size=50, max_position_embeddings=24))
    base.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text((bert / "config.json").read_text())
    with pytest.raises(ModelError, match=r"no weights that fit classifier.bias.*train the head first"):
        read(tmp_path, card={})


def test_code_that_a_folder_brings_is_not_run(vit: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((vit / name).read_bytes())
    told = json.loads((vit / "config.json").read_text())
    told |= {"auto_map": {"AutoConfig": "evil.Config", "AutoModelForImageClassification": "evil.Network"}}
    (tmp_path / "config.json").write_text(json.dumps(told))
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: ...\nclass Network: ...\n")
    with suppress(ModelError):  # to refuse is as good as to leave the code out
        read(tmp_path, card={})
    build_hugging_face(IMAGES, {"config": told}, "test")
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_are_sent_to_convert(vit: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((vit / "config.json").read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="modelkeep convert"):
        read(tmp_path, card={})


@pytest.mark.parametrize(
    "arguments", [{}, {"config": {}}, {"config": {"model_type": "vit"}, "trust_remote_code": True}]
)
def test_a_header_gives_a_config_and_nothing_else(arguments: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="needs the arguments"):
        build_hugging_face(IMAGES, arguments, "test")
