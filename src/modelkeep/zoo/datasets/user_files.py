"""The user's own files: arrays, tables, pictures, by the kind of file that each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from modelkeep.core.data import Data
from modelkeep.core.encoder import Encoder, Missing
from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets.array_files import read_npy, read_npz, read_safetensors
from modelkeep.zoo.datasets.arrays import IN_MEMORY
from modelkeep.zoo.datasets.pictures import PICTURES, read_folder, read_picture
from modelkeep.zoo.datasets.table_files import read_table


def read(
    path: Path,
    *,
    label: str,
    ignore: Sequence[str],
    missing: Missing,
    shape: tuple[int, ...] | None,
    positive: str | None = None,
    encoder: Encoder | None = None,
    in_memory: int = IN_MEMORY,
    cache: str | Path | None = None,
) -> Data:
    """The data at `path`, by the kind of file that it is."""
    if path.is_dir() and (path / "x.npy").exists():
        data = read_npy(path / "x.npy", in_memory, cache)
    elif path.is_dir():
        data = read_folder(path, shape, in_memory, cache)
    elif path.suffix.lower() in PICTURES:
        data = read_picture(path, shape)
    elif path.suffix == ".npz":
        data = read_npz(path, in_memory, cache)
    elif path.suffix == ".npy":
        data = read_npy(path, in_memory, cache)
    elif path.suffix == ".safetensors":
        data = read_safetensors(path, in_memory, cache)
    elif path.suffix in (".csv", ".parquet"):
        data = read_table(
            path,
            label,
            missing=missing,
            ignore=ignore,
            positive=positive,
            encoder=encoder,
            in_memory=in_memory,
            cache=cache,
        )
    else:
        raise DataError(
            f"Cannot tell what {path} is. Data is read from .npz, .npy, .safetensors, .csv, .parquet, a picture or a "
            "folder of pictures."
        )
    return replace(data, name=path.stem, source=str(path.resolve()))
