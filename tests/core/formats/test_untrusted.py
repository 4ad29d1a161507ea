"""Files from anywhere: headers, pickles and damage never run code, and are refused with the way out."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from modelkeep import Model
from modelkeep.core import formats
from modelkeep.core.card import Card
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.formats.weights import HEADER
from modelkeep.zoo import architectures

pytestmark = pytest.mark.usefixtures("networks")


def load(factory: str, **given: Any) -> Model:
    return Model.load(f"their_networks:{factory}", **{"input_shape": (4,), "classes": ("a", "b", "c"), **given})


@pytest.mark.parametrize(
    "spec",
    [
        "their_networks:linear",
        "os:getcwd",
        "modelkeep.architectures:_call",
        "modelkeep.architectures:MinMax",
        "modelkeep.architectures:import_module",
        "modelkeep.architectures.cnn:small_cnn",
        "modelkeep.architectures:cnn.small_cnn",
        "modelkeep.architectures:annotations",
        "modelkeep.architectures:",
        "",
    ],
)
def test_a_header_may_only_name_our_factories(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures, "import_module", __import__, raising=False)
    path = tmp_path / "model.safetensors"
    formats.write(path, nn.Linear(4, 3), Card((4,), ("a", "b", "c"), architecture=spec))
    before = set(sys.modules)
    with pytest.raises(ModelError, match=r'Model.load\("package.module:factory", weights='):
        Model.load(path)
    assert "their_networks" not in set(sys.modules) - before


def test_bad_arguments_in_a_header_are_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    card = Card((4,), ("a", "b"), architecture="modelkeep.architectures:dense", arguments={"depth": 3})
    formats.write(path, nn.Linear(4, 2), card)
    with pytest.raises(ModelError, match=r"dense.*raised TypeError"):
        Model.load(path)


def test_the_user_may_correct_the_arguments_in_a_header(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    module = architectures.dense([4], 2, hidden=[6])
    formats.write(path, module, Card((4,), ("a", "b"), architecture="modelkeep.architectures:dense"))
    model = Model.load(path, arguments={"input_shape": [4], "classes": 2, "hidden": [6]})
    assert torch.equal(model.module(model.probe()), module.eval()(model.probe()))
    assert model.card.arguments["hidden"] == [6]


def test_weights_of_other_makers_need_a_factory(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"weight": torch.zeros(3, 4)}, path)
    with pytest.raises(ModelError, match="does not say what network"):
        Model.load(path)
    save_file({"weight": torch.rand(3, 4), "bias": torch.zeros(3)}, path)
    with pytest.raises(InputError, match="input_shape=…, classes=…"):
        Model.load("their_networks:linear", weights=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "header of .* is damaged"),
        ("[]", "header of .* is damaged"),
        ('{"schema": 99}', "schema 99"),
        ('{"schema": 1, "card": 3}', "its card is 3"),
        ('{"schema": 1, "card": {}, "aliases": {"bias": "nothing"}}', "is damaged"),
        ('{"schema": 1, "card": {"input_shape": "x", "classes": ["a", "b", "c"]}}', "not valid at input_shape"),
        ('{"schema": 1, "card": {"input_shape": [4], "classes": ["a", "a", "b"]}}', "different names"),
    ],
)
def test_damaged_headers_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"weight": torch.rand(3, 4), "bias": torch.zeros(3)}, path, metadata={HEADER: text})
    with pytest.raises((ModelError, InputError), match=message):
        Model.load("their_networks:linear", weights=path)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("their_networks:absent", "cannot be imported"),
        ("absent_package_of_nobody:make", "cannot be imported.*PYTHONPATH"),
        ("their_networks:broken", "raised OSError: no such device"),
        ("their_networks:number", "must return an nn.Module or a fitted estimator. Got int"),
    ],
)
def test_factories_that_do_not_work(spec: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Model.load(spec, input_shape=(4,), classes=3)


def test_unknown_keywords_are_refused() -> None:
    with pytest.raises(InputError, match=r"no 'clases'.*input_shape, classes, preprocessing, bounds"):
        load("linear", clases=3)


def test_weights_belong_to_a_factory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Weights belong to a factory"):
        Model.load("a.onnx", weights="b.safetensors")


class Malicious:
    """What a pickle can do: here it ends the test run."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[int]]:
        return os._exit, (13,)


@pytest.mark.parametrize("name", ["m.pt", "m.pth", "m.bin", "m.ckpt", "m.pkl", "m.safetensors", "m.pt2", "m.onnx"])
def test_pickles_are_never_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for content in (Malicious(), {"weight": torch.zeros(3, 4)}):
        if isinstance(content, Malicious):
            path.write_bytes(pickle.dumps(content))
        else:
            torch.save(content, path)
        with pytest.raises(ModelError, match=r"Do not open|modelkeep convert"):
            Model.load(path)
        with pytest.raises(ModelError, match=r"Do not open|modelkeep convert"):
            Model.load("their_networks:linear", weights=path)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt2", ".onnx"])
def test_files_that_are_not_there_or_damaged(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    with pytest.raises(ModelError, match="There is no file"):
        Model.load(path)
    path.touch()
    with pytest.raises(ModelError, match="is empty"):
        Model.load(path)
    path.write_bytes(b"this is not a model, but long enough to be one" * 9)
    with pytest.raises(ModelError, match="cannot be read as"):
        Model.load(path)
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(ModelError, match="There is no file"):
        Model.load(tmp_path / f"folder{suffix}")


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = load("linear").save(tmp_path / "model.safetensors")
    whole = path.read_bytes()
    for length in (4, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="cannot be read as safetensors"):
            Model.load("their_networks:linear", weights=path)


def test_other_extensions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"\.safetensors, \.pt2, \.onnx files"):
        Model.load(tmp_path / "model.h5")
    with pytest.raises(InputError, match=r"saved as a '.safetensors'"):
        load("linear").save(tmp_path / "model.pt")
