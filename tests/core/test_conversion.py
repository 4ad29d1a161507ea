"""State dicts, however they are wrapped, folders and programs become files that load by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from core.formats.foreign import network
from modelkeep import Model, Preprocessing
from modelkeep.core.conversion import read_foreign, read_state_dict, write_pt2
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.nest import Leaf, Nest

SHAPE = {"input_shape": (1, 8, 8)}


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "model.", "module._orig_mod."])
@pytest.mark.parametrize("place", [None, "state_dict", "model", "ema"])
def test_weights_are_found_in_every_usual_wrapping(
    prefix: str, place: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = network(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    weights: Any = {f"{prefix}{name}": tensor for name, tensor in made.state_dict().items()}
    torch.save(weights if place is None else {"epoch": 3, place: weights}, tmp_path / "w.pt")
    read = read_foreign(str(tmp_path / "w.pt"), "owners_network:Network", SHAPE).count_classes()
    model = Model.of_reading(read)
    assert model.classes == ("0", "1", "2")
    assert not model.untrained
    x = torch.rand(4, 1, 8, 8)
    assert torch.equal(model.logits(x), made(x))
    path = model.save(tmp_path / "m.safetensors")
    assert torch.equal(Model.load("owners_network:Network", weights=path).logits(x), made(x))


@pytest.mark.parametrize(
    ("content", "message"),
    [([1, 2], "holds a list"), ({"epoch": 3}, "holds epoch, none of which is weights"), ({}, "holds nothing")],
)
def test_what_holds_no_weights_is_said(content: object, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(ModelError, match=message):
        read_state_dict(tmp_path / "w.pt")


def test_weights_of_another_network_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "w.pt")
    with pytest.raises(ModelError, match=r"are not those of Network; missing: conv.weight"):
        read_foreign(str(tmp_path / "w.pt"), "owners_network:Network", SHAPE)


def test_a_program_of_torch_export_gives_the_same_logits(tmp_path: Path) -> None:
    made = network(tmp_path)
    model = Model(made, input_shape=(1, 8, 8), classes=3, preprocessing=Preprocessing((0.5,), (0.25,)))
    again = Model.load(write_pt2(model, tmp_path / "m.pt2"), preprocessing=Preprocessing((0.5,), (0.25,)))
    x = torch.rand(5, 1, 8, 8)
    torch.testing.assert_close(again.logits(x), model.logits(x))
    assert [path.name for path in tmp_path.glob("*.pt2")] == ["m.pt2"]
    with pytest.raises(ModelError, match="cannot be written"):
        write_pt2(model, tmp_path / "nowhere" / "m.pt2")


def test_a_nest_is_no_pt2(tmp_path: Path) -> None:
    class Sum(nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return torch.stack([a.sum(1), -a.sum(1)], dim=1)

    model = Model(Sum(), inputs=Nest((Leaf("a", (3,)),)), classes=2, bounds=None)
    with pytest.raises(InputError, match=r"Write this one as \.safetensors"):
        write_pt2(model, tmp_path / "m.pt2")


def test_pickled_weights_of_a_hugging_face_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8
    )
    made = transformers.ViTForImageClassification(config).eval()
    made.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(made.state_dict(), tmp_path / "pytorch_model.bin")
    read = read_foreign(str(tmp_path), None, {})
    x = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(read.open()[0].eval()(x).logits, made(x).logits)
