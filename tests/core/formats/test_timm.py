"""A network of timm by name: its real code where it can be imported, else a stand-in with the same calls."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from modelkeep import Model
from modelkeep.core.conversion import read_foreign
from modelkeep.core.errors import ModelError
from modelkeep.core.formats.timm import build_timm, read_timm


class _Network(nn.Module):
    """What timm's networks have: `num_classes` and `pretrained_cfg`."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.num_classes = classes
        self.pretrained_cfg = {"input_size": (3, 8, 8), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.2)}
        self.head = nn.Linear(192, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(x.flatten(1))
        return logits


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The calls of a stand-in for timm, which has `small` with pretrained weights of ones."""
    calls: list[dict[str, Any]] = []

    def create_model(model_name: str, pretrained: bool = False, num_classes: int = 5) -> nn.Module:
        calls.append({"model_name": model_name, "pretrained": pretrained})
        if model_name != "small":
            raise RuntimeError(f"Unknown model ({model_name})")
        made = _Network(num_classes)
        if pretrained:
            nn.init.ones_(made.head.weight)
        return made

    stand_in: Any = ModuleType("timm")
    stand_in.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    return calls


def test_a_name_becomes_a_file_that_loads_by_itself(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    model = Model.of_reading(read_foreign("timm/small", None, {}))
    assert model.card.preprocessing.mean == (0.5, 0.4, 0.3)
    path = model.save(tmp_path / "small.safetensors")
    asked.clear()
    again = Model.load(path)
    assert again.fingerprint() == model.fingerprint()
    assert asked == [{"model_name": "small", "pretrained": False}]  # nothing is downloaded


def test_weights_of_a_file_go_before_a_download(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    save_file({"head.weight": torch.zeros(5, 192), "head.bias": torch.arange(5.0)}, tmp_path / "w.safetensors")
    module, _ = read_timm("timm/small", tmp_path / "w.safetensors")
    assert module(torch.rand(1, 3, 8, 8)).tolist() == [[0.0, 1.0, 2.0, 3.0, 4.0]]
    assert asked == [{"model_name": "small", "pretrained": False}]


def test_what_timm_does_not_know_is_a_sentence(asked: list[dict[str, Any]]) -> None:
    with pytest.raises(ModelError, match=r"timm cannot make 'none': Unknown model \(none\)"):
        read_timm("timm/none", None)


@pytest.mark.parametrize(
    "arguments", [{}, {"model_name": "hf-hub:evil/x"}, {"model_name": "small", "pretrained": True}]
)
def test_a_header_names_a_network_and_nothing_else(arguments: dict[str, Any], asked: list[dict[str, Any]]) -> None:
    with pytest.raises(ModelError, match="which takes model_name, num_classes, in_chans"):
        build_timm(arguments, "test")
    assert not asked


def test_a_timm_that_cannot_be_imported_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "timm":
                raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(ModelError, match="cannot be imported here: operator torchvision::nms does not exist"):
        read_timm("timm/resnet18", None)


def test_the_real_timm(tmp_path: Path) -> None:
    """Runs where timm can be imported; torchvision has no build for the torch of every machine."""
    try:
        import timm  # type: ignore[import-not-found, unused-ignore]
    except Exception as error:
        pytest.skip(f"timm cannot be imported: {error}")
    torch.manual_seed(0)
    theirs = timm.create_model("resnet10t", pretrained=False).eval()
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    model = Model.of_reading(read_foreign("timm/resnet10t", None, {}, tmp_path / "w.safetensors"))
    again = Model.load(model.save(tmp_path / "m.safetensors"))
    x = torch.rand(1, *again.input_shape)
    torch.testing.assert_close(again.logits(x), theirs(again.preprocess(x)))
