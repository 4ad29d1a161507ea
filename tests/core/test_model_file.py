"""The description of a model: options go before the file, the file before what the model says; nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Model, Preprocessing
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.model_file import Description, find_description
from modelkeep.zoo.architectures import small_cnn

EVERYTHING = Description(
    factory="modelkeep.architectures:small_cnn",
    arguments={"input_shape": [3, 8, 8], "deep": {"names": ["a", 'b"c'], "share": 0.5, "on": True}},
    classes=("cat", "naïve\ndog"),
    input_shape=(8, 8, 3),
    inputs=({"name": "input_ids", "shape": [4], "kind": "token", "size": 9},),
    layout="channels-last",
    mean=(0.5, 0.25, 0.125),
    std=(1.0, 2.0, 3.0),
    bounds="none",
    device="cpu",
    label="income",
    missing="drop",
    ignore=("id",),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert Description.read(EVERYTHING.write(tmp_path / "model.toml")) == EVERYTHING
    beside = Description(weights=tmp_path / "w.safetensors", tokenizer=tmp_path / "sub" / "tokenizer.json")
    text = beside.write(tmp_path / "model.toml").read_text()
    assert 'weights = "w.safetensors"' in text  # from the file's folder, so that both can move
    assert Description.read(tmp_path / "model.toml") == beside
    assert not Description().says_anything


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('clases = ["a", "b"]', "says 'clases', which no model has. Did you mean 'classes'?"),
        ('input_shape = "3,8,8"', "is not valid at input_shape"),
        ('layout = "nhwc"', "is not valid at layout: Input should be 'channels-first' or 'channels-last'"),
        ("mean = [", "is not TOML"),
        ('classes = "names.txt"', "names of the classes cannot be read"),
    ],
)
def test_mistakes_are_sentences(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(text)
    with pytest.raises((InputError, ModelError)) as refused:
        Description.read(tmp_path / "model.toml")
    assert message in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_the_file_beside_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").touch()
    assert find_description(tmp_path / "a.onnx") is None
    (tmp_path / "model.toml").touch()
    assert find_description(tmp_path / "a.onnx") == tmp_path / "model.toml"
    (tmp_path / "a.toml").touch()
    assert find_description(tmp_path / "a.onnx") == tmp_path / "a.toml"
    assert find_description(tmp_path / "nothing.onnx") is None
    assert find_description("package.module:factory") is None


def test_options_go_before_the_file_and_the_file_before_the_model(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    (tmp_path / "m.toml").write_text('classes = ["x", "y", "z"]\nbounds = [-1, 1]\nmean = [0.25]\nstd = [0.5]\n')
    found = Model.load(path, bounds=(0.0, 2.0))
    assert found.classes == ("x", "y", "z")
    assert found.bounds == (0.0, 2.0)
    assert found.card.preprocessing == Preprocessing((0.25,), (0.5,))
    (tmp_path / "other.toml").write_text('classes = ["p", "q", "r"]\n')
    assert Model.load(path, describe=tmp_path / "other.toml").classes == ("p", "q", "r")


def test_a_description_must_not_decide_what_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _saved(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "m.toml").write_text('factory = "evil:network"\n')
    with pytest.raises(ModelError, match=r"A file may only name a factory of modelkeep.architectures"):
        Model.load(path)


def test_a_processor_goes_before_the_other_description_but_not_before_its_own(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"image_mean": [0.5], "image_std": [0.25], "size": 16}')
    old = Description(mean=(0.1,), std=(0.2,), bounds=(0.0, 9.0), classes=2)
    told = Description(processor=tmp_path / "p.json", bounds=(0.0, 2.0)).over(old).card()
    assert told["preprocessing"] == {"mean": (0.5,), "std": (0.25,)}
    assert told["bounds"] == (0.0, 2.0)
    assert told["classes"] == 2


def test_a_network_that_takes_the_channels_last_gives_the_same_logits(tmp_path: Path) -> None:
    """Against the same network with the channels first, in a file of torch.export."""
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 4 * 6, 3)).eval()
    x = torch.rand(2, 6, 8, 3)
    batch = torch.export.Dim("batch")
    program = torch.export.export(_ChannelsLast(inner), (x,), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "last.pt2")
    (tmp_path / "last.toml").write_text('layout = "channels-last"\nmean = [0.5, 0.25, 0.125]\nstd = [0.5, 0.5, 0.5]\n')
    first = Model(inner, input_shape=(3, 6, 8), classes=3, preprocessing=Preprocessing((0.5, 0.25, 0.125), (0.5,) * 3))
    last = Model.load(tmp_path / "last.pt2")
    assert last.input_shape == (3, 6, 8)
    pictures = torch.rand(5, 3, 6, 8)
    torch.testing.assert_close(last.logits(pictures), first.logits(pictures))
    again = Description(layout="channels-last", input_shape=(6, 8, 3))
    assert again.card() == {"layout": "channels-last", "input_shape": (3, 6, 8)}


def _saved(folder: Path) -> Path:
    torch.manual_seed(0)
    model = Model(
        small_cnn((1, 8, 8), 3),
        input_shape=(1, 8, 8),
        classes=("a", "b", "c"),
        architecture="modelkeep.architectures:small_cnn",
        arguments={"input_shape": [1, 8, 8], "classes": 3},
    )
    return model.save(folder / "m.safetensors")


class _ChannelsLast(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.inner(x.movedim(-1, 1))
        return logits
