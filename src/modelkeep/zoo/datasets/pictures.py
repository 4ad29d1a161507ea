"""Pictures in a folder, as a `Data`: decoded by workers when they are used; all at once where they fit into memory."""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.examples import Stored, in_parts
from modelkeep.zoo.datasets.arrays import IN_MEMORY, UNLABELLED
from modelkeep.zoo.datasets.kept import Kept, stamp
from modelkeep.zoo.datasets.photos import decode_file, is_grey

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


@dataclass
class PictureExamples:
    """Picture files, decoded to `(channels, height, width)` in 0..1 by as many threads as there are processors.

    Pillow decodes without Python's lock, so threads are enough; processes would have to send the pixels to each other.
    """

    paths: Sequence[Path]
    colour: bool
    fit: tuple[int, int] | None
    source: str
    fingerprints: MutableMapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._first = decode_file(self.paths[0], self.colour, self.fit).shape
        self._workers = ThreadPoolExecutor(os.cpu_count() or 1, "decode")

    def __reduce__(self) -> Any:
        return PictureExamples, (self.paths, self.colour, self.fit, self.source)

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, channels, height, width)`, as the first picture has it."""
        return (len(self.paths), *self._first)

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The pictures at `index`."""
        x = np.empty((len(index), *self._first), np.float32)
        # All of them, so that none is still being decoded where one of them raises.
        list(self._workers.map(self._decode, x, index.tolist()))
        return torch.from_numpy(x)

    def _decode(self, into: np.ndarray[Any, np.dtype[np.float32]], number: int) -> None:
        path = self.paths[number]
        pixels = decode_file(path, self.colour, self.fit)
        if pixels.shape != self._first:
            _, height, width = self._first
            raise DataError(
                f"All pictures must have one size. {self.paths[0]} has {width}×{height} pixels, {path} has "
                f"{pixels.shape[2]}×{pixels.shape[1]}. Scale them to one size first."
            )
        np.divide(pixels, np.float32(255), out=into)


def read_folder(
    path: Path, shape: tuple[int, ...] | None = None, in_memory: int = IN_MEMORY, cache: str | Path | None = None
) -> Data:
    """One sub-folder per class, called as the class is; without any, all pictures are of the one class "unlabelled".

    Grey if all pictures are grey, else RGB (without alpha); or of `shape` (channels, height, width).
    """
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    found = [
        (p, i) for i, f in enumerate(folders or [path]) for p in sorted(f.iterdir()) if p.suffix.lower() in PICTURES
    ]
    full = {label for _, label in found}
    empty = [folder.name for i, folder in enumerate(folders) if i not in full]
    if not found or empty:
        raise DataError(
            f"{path} must hold a sub-folder with pictures ({', '.join(PICTURES)}) for each class. "
            + (f"There are none in: {', '.join(empty)}." if empty else "It has no sub-folders and no pictures.")
        )
    classes = tuple(folder.name for folder in folders) or (UNLABELLED,)
    return _pictures(path, [p for p, _ in found], [i for _, i in found], classes, shape, in_memory, cache)


def read_picture(path: Path, shape: tuple[int, ...] | None = None) -> Data:
    """One picture, without a label."""
    return _pictures(path, [path], [0], (UNLABELLED,), shape, IN_MEMORY, None)


def _pictures(
    source: Path,
    paths: list[Path],
    labels: list[int],
    classes: tuple[str, ...],
    shape: tuple[int, ...] | None,
    in_memory: int,
    cache: str | Path | None,
) -> Data:
    if shape is not None and (len(shape) != 3 or shape[0] not in (1, 3)):
        raise DataError(f"Pictures have the shape (1 or 3, height, width). They cannot be given the shape {shape}.")
    colour = not _all_grey(paths) if shape is None else shape[0] == 3
    examples = PictureExamples(paths, colour, None if shape is None else (shape[1], shape[2]), str(source))
    x: torch.Tensor = Stored(examples)
    if 4 * prod(x.shape) <= in_memory:
        x = _load(x)
    else:
        examples.fingerprints = Kept(f"{stamp(paths)}-{'x'.join(map(str, x.shape[1:]))}", cache)
    return Data(x, torch.tensor(labels), classes, bounds=(0.0, 1.0))


def _all_grey(paths: Sequence[Path]) -> bool:
    """Whether no picture has colours; the first one that has them ends the search."""
    with progress.task("look at pictures", total=len(paths)) as task:
        for path in paths:
            if not is_grey(path):
                return False
            task.advance()
    return True


def _load(stored: torch.Tensor) -> torch.Tensor:
    """All pictures, filled in part by part: the parts and what is put together of them would need the memory twice."""
    x, done = torch.empty(stored.shape), 0
    with progress.task("decode pictures", total=len(x)) as task:
        for part in in_parts(stored):
            x[done : done + len(part)] = part
            done += len(part)
            task.advance(len(part))
    return x
