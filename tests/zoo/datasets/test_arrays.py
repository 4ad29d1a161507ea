"""Data on disk, of every kind, are the same bits as in memory: batches, choices, fingerprints, training, attacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file
from torch import nn
from torch.utils.data import Dataset

from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.core.errors import DataError
from modelkeep.core.examples import Stored
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.training.evaluation import evaluate
from modelkeep.zoo import datasets

RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(0, 256, (40, 3, 6, 5), dtype=np.uint8)
LABELS = np.sort(RANDOM.integers(0, 3, 40))  # sorted, as a folder of pictures is
CLASSES = ("cat", "dog", "owl")


def _npz(folder: Path) -> Path:
    np.savez(folder / "a.npz", x=BYTES, y=LABELS, classes=np.array(CLASSES))
    return folder / "a.npz"


def _compressed(folder: Path) -> Path:
    np.savez_compressed(folder / "b.npz", x=BYTES, y=LABELS, classes=np.array(CLASSES))
    return folder / "b.npz"


def _npy(folder: Path) -> Path:
    np.save(folder / "x.npy", BYTES)
    np.save(folder / "y.npy", LABELS)
    np.save(folder / "classes.npy", np.array(CLASSES))
    return folder


def _safetensors(folder: Path) -> Path:
    save_file({"x": BYTES, "y": LABELS}, folder / "c.safetensors", {"classes": json.dumps(CLASSES)})
    return folder / "c.safetensors"


def _pictures(folder: Path) -> Path:
    for number, (pixels, label) in enumerate(zip(BYTES, LABELS, strict=True)):
        (folder / "pets" / CLASSES[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(folder / "pets" / CLASSES[label] / f"{number:03}.png")
    return folder / "pets"


class Pairs(Dataset[tuple[torch.Tensor, int]]):
    """A torch Dataset."""

    classes = CLASSES

    def __len__(self) -> int:
        return len(BYTES)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(BYTES[row]), int(LABELS[row])


class Named(list[str]):
    """What Hugging Face calls a ClassLabel."""

    names = CLASSES


class Rows:
    """As much of a Hugging Face Dataset as is used; held against the real one by hand (docs/results/data.md)."""

    def __init__(self) -> None:
        self.features = {"image": type("Image", (), {})(), "id": "int64", "label": Named()}

    def __len__(self) -> int:
        return len(BYTES)

    def __getitem__(self, key: str | list[int]) -> Any:
        if isinstance(key, str):
            return LABELS.tolist()
        return {"image": [Image.fromarray(BYTES[row].transpose(1, 2, 0)) for row in key], "id": key}


KINDS: dict[str, Callable[[Path], Path]] = {
    "npz": _npz,
    "compressed npz": _compressed,
    "npy": _npy,
    "safetensors": _safetensors,
    "pictures": _pictures,
}


@pytest.fixture(params=[*KINDS, "torch", "Hugging Face"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Data, Data]:
    """The same data on disk and in memory."""
    if request.param == "torch":
        return datasets.from_torch(Pairs(), in_memory=0), datasets.from_torch(Pairs())
    if request.param == "Hugging Face":
        return datasets.from_huggingface(Rows(), in_memory=0), datasets.from_huggingface(Rows())
    path, cache = KINDS[request.param](tmp_path), tmp_path / "cache"
    return datasets.open(path, in_memory=0, cache=cache), datasets.open(path, cache=cache)


def _same(one: Data, other: Data) -> None:
    assert (one.classes, one.features, one.bounds, one.input_shape) == (
        other.classes,
        other.features,
        other.bounds,
        other.input_shape,
    )
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)
    assert one.fingerprint() == other.fingerprint()


def test_one_stays_on_disk_and_holds_what_was_written(both: tuple[Data, Data]) -> None:
    stored, memory = both
    assert isinstance(stored.x, Stored)
    assert not isinstance(memory.x, Stored)
    np.testing.assert_array_equal(memory.x.numpy(), BYTES.astype(np.float32) / np.float32(255))
    _same(stored, memory)


def test_every_choice_is_the_same_and_stays_on_disk(both: tuple[Data, Data]) -> None:
    choices: list[Callable[[Data], tuple[Data, ...]]] = [
        lambda data: (data.take([5, 5, 39, 0]),),
        lambda data: (data.first(7),),
        lambda data: (data.sample(11, seed=3),),
        lambda data: data.split(0.5, 0.3, seed=1),
        lambda data: (data.of_class("dog"),),
        lambda data: (data.split(0.5, seed=1)[0].sample(5, seed=0).take([4, 2]),),
        lambda data: (replace(data, name="other"),),
        lambda data: (data.first(0),),
    ]
    for choose in choices:
        for stored, memory in zip(*map(choose, both), strict=True):
            assert isinstance(stored.x, Stored)
            _same(stored, memory)


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_are_the_same_and_in_memory(both: tuple[Data, Data], seed: int | None) -> None:
    stored, memory = both
    for (x, y), (other_x, other_y) in zip(stored.batches(7, seed), memory.batches(7, seed), strict=True):
        assert type(x) is torch.Tensor
        assert torch.equal(x, other_x)
        assert torch.equal(y, other_y)
    assert torch.equal(stored.rows([3, 1]), memory.rows([3, 1]))


def _model(data: Data) -> Model:
    torch.manual_seed(0)
    width = int(np.prod(data.input_shape))
    module = nn.Sequential(nn.Flatten(), nn.Linear(width, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    return Model(module, input_shape=data.input_shape, classes=data.classes)


def test_training_measuring_and_attacking_are_the_same(both: tuple[Data, Data]) -> None:
    answers = []
    for data in both:
        model = _model(data)
        fit(model, data, cross_entropy, Recipe(epochs=2, batch_size=16), seed=0, held_out=data)
        found = PGD(radius=0.1, steps=3)(model, data.sample(9, seed=0), seed=0)
        answers.append((model.fingerprint(), evaluate(model, data, 7), found.adversarial.tolist()))
    assert answers[0] == answers[1]


def test_a_stopped_training_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    data = datasets.open(_npz(tmp_path), in_memory=0, cache=tmp_path)
    whole, stopped = _model(data), _model(data)
    recipe = Recipe(epochs=3, batch_size=16)
    fit(whole, data, cross_entropy, recipe, seed=0)
    steps = 0

    def objective(model: Model, x: torch.Tensor, y: torch.Tensor, step: object) -> torch.Tensor:
        nonlocal steps
        steps += 1
        if steps == 5:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(model.forward(x), y)

    objective.name = "modelkeep.training.objectives.cross_entropy"  # type: ignore[attr-defined]
    for _ in range(2):
        try:
            fit(stopped, data, objective, recipe, seed=0, checkpoint=tmp_path / "c", checkpoint_seconds=0)
        except KeyboardInterrupt:
            continue
    assert stopped.fingerprint() == whole.fingerprint()


def test_what_is_not_finite_is_named_by_row_and_column(tmp_path: Path) -> None:
    x = RANDOM.normal(size=(30, 2))
    x[17, 1] = np.nan
    np.savez(tmp_path / "a.npz", x=x, y=np.zeros(30, int), features=np.array(["age", "height"]))
    data = datasets.open(tmp_path / "a.npz", in_memory=0, cache=tmp_path)
    assert torch.equal(data.rows([16, 18]), torch.from_numpy(x[[16, 18]]).float())
    for found in (lambda: data.rows([3, 17]), lambda: datasets.open(tmp_path / "a.npz")):
        with pytest.raises(DataError, match=r"row 17, column 'height' is nan \(1 such value in 1 row"):
            found()


def test_what_is_out_of_bounds_is_refused_when_it_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(8.0).reshape(4, 2), y=np.zeros(4, int), bounds=np.array([0, 5]))
    data = datasets.open(tmp_path / "a.npz", in_memory=0, cache=tmp_path)
    assert data.rows([0, 1]).tolist() == [[0, 1], [2, 3]]
    with pytest.raises(DataError, match=r"lie in \(0\.0, 5\.0\), but they span \[6\.0, 7\.0\]"):
        data.rows([3])


def test_arrays_without_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "seen.npy", BYTES)
    assert datasets.open(tmp_path / "seen.npy").classes == ("unlabelled",)


def test_grey_pictures_get_a_channel(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=BYTES[:, 0], y=LABELS)
    stored, memory = (datasets.open(tmp_path / "a.npz", in_memory=n, cache=tmp_path) for n in (0, 10**9))
    assert stored.input_shape == (1, 6, 5)
    _same(stored, memory)
