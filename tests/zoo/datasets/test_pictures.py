"""Folders of pictures: only the asked ones are decoded. Bits against memory are in test_arrays."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from modelkeep.core.errors import DataError
from modelkeep.core.examples import Stored
from modelkeep.zoo.datasets.pictures import PictureExamples, read_folder

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, pixels in enumerate(PIXELS):
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    return tmp_path


def test_every_byte_becomes_what_it_becomes_in_memory(tmp_path: Path) -> None:
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(values).save(tmp_path / "grey.png")
    (x,) = PictureExamples([tmp_path / "grey.png"], False, None, "grey").rows(torch.tensor([0]))
    assert torch.equal(x[0].flatten(), torch.arange(256).float().div(255))


def test_only_what_is_asked_for_is_decoded(folder: Path) -> None:
    (folder / "3.png").write_bytes(b"damaged")
    data = read_folder(folder, (3, 5, 4), in_memory=0, cache=folder / ".cache")
    expected = PIXELS[[5, 0]].transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(data.rows([5, 0]).numpy(), expected)
    with pytest.raises(DataError, match=r"3\.png cannot be read"):
        data.rows([0, 3])


def test_another_size_is_named_when_it_is_read(folder: Path) -> None:
    Image.fromarray(PIXELS[0][:, :2]).save(folder / "4.png")
    data = read_folder(folder, in_memory=0, cache=folder / ".cache")
    with pytest.raises(DataError, match=r"0\.png has 4×5 pixels, .*4\.png has 2×5"):
        data.rows([4])


def test_a_fingerprint_is_kept_for_each_shape(folder: Path) -> None:
    shapes = [(3, 5, 4), (3, 4, 4), (1, 5, 4)]
    found = [read_folder(folder, shape, in_memory=0, cache=folder / ".cache").fingerprint() for shape in shapes]
    assert found == [read_folder(folder, shape, in_memory=0, cache=folder / ".cache").fingerprint() for shape in shapes]
    assert found == [read_folder(folder, shape).fingerprint() for shape in shapes]
    assert len(set(found)) == 3


def test_they_go_to_other_processes_by_their_names(folder: Path) -> None:
    data = read_folder(folder, in_memory=0, cache=folder / ".cache")
    assert isinstance(data.x, Stored)
    again = pickle.loads(pickle.dumps(data.x))  # noqa: S301
    assert torch.equal(again + 0, data.x + 0)
