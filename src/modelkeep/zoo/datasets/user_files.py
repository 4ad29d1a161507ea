"""The user's own data: .npz, CSV, Parquet, a folder of pictures, a torch Dataset."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import DataError, MissingExtra
from modelkeep.zoo.datasets.arrays import IN_MEMORY, UNLABELLED, assemble
from modelkeep.zoo.datasets.kept import Kept, stamp, unpack_member
from modelkeep.zoo.datasets.mapped import map_member, map_npy, map_safetensors, member_size
from modelkeep.zoo.datasets.photos import decode_photos, is_grey
from modelkeep.zoo.datasets.tables import Column, Missing, column, encode

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def read(
    path: Path,
    *,
    label: str,
    ignore: Sequence[str],
    missing: Missing,
    shape: tuple[int, ...] | None,
    in_memory: int = IN_MEMORY,
    cache: str | Path | None = None,
) -> Data:
    """The data at `path`, by the kind of file that it is."""
    if path.is_dir() and (path / "x.npy").exists():
        data = _npy(path / "x.npy", in_memory, cache)
    elif path.is_dir():
        data = _image_folder(path, shape)
    elif path.suffix.lower() in PICTURES:
        data = _pictures([(path, 0)], (UNLABELLED,), shape)
    elif path.suffix == ".npz":
        data = npz(path, in_memory, cache)
    elif path.suffix == ".npy":
        data = _npy(path, in_memory, cache)
    elif path.suffix == ".safetensors":
        data = _safetensors(path, in_memory, cache)
    elif path.suffix in (".csv", ".parquet"):
        columns = _csv(path) if path.suffix == ".csv" else _parquet(path)
        if unknown := [name for name in ignore if name not in columns]:
            raise DataError(f"{path.name} has no column '{unknown[0]}' to ignore. Its columns: {', '.join(columns)}.")
        columns = {name: values for name, values in columns.items() if name not in ignore}
        data = encode(columns, label, name=path.stem, missing=missing)
    else:
        raise DataError(
            f"Cannot tell what {path} is. Data is read from .npz, .npy, .safetensors, .csv, .parquet, a picture or a "
            "folder of pictures."
        )
    return replace(data, name=path.stem, source=str(path.resolve()))


def npz(path: Path, in_memory: int = IN_MEMORY, cache: str | Path | None = None) -> Data:
    """Arrays `x` and `y`, and optionally `classes` (names), `features` (names) and `bounds` (low, high).

    Bytes of three or more dimensions are images and become 0..1; everything else stays as it is.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            large = 4 * member_size(path, "x") > in_memory
            arrays: dict[str, Any] = {name: found[name] for name in found.files if name != "x" or not large}
        if large:
            arrays["x"] = map_member(path, "x", partial(unpack_member, cache=cache))
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path} cannot be read as .npz: {error}. Objects (pickles) are refused.") from error
    return _from_arrays(path, arrays, in_memory, Kept(stamp([path]), cache))


def _npy(path: Path, in_memory: int, cache: str | Path | None) -> Data:
    """Examples in `x.npy` and labels in `y.npy` (also `x_train.npy` and `y_train.npy`, `images.npy` and `labels.npy`).

    `classes.npy`, `features.npy` and `bounds.npy` beside them mean what they mean in an .npz. Without labels, all
    examples are of the one class "unlabelled".
    """
    words = {"x": "y", "X": "y", "images": "labels", "inputs": "labels"}
    named = "".join(words.get(word, word) for word in re.split(r"([-_.])", path.stem))
    arrays: dict[str, Any] = {"x": map_npy(path)}
    if named != path.stem and path.with_name(f"{named}.npy").exists():
        arrays["y"] = _load_npy(path.with_name(f"{named}.npy"))
    for name in ("classes", "features", "bounds"):
        if path.with_name(f"{name}.npy").exists():
            arrays[name] = _load_npy(path.with_name(f"{name}.npy"))
    return _from_arrays(path, arrays | {"y": arrays.get("y")}, in_memory, Kept(stamp([path]), cache))


def _load_npy(path: Path) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array: {error}. Objects (pickles) are refused.") from error
    return found


def _safetensors(path: Path, in_memory: int, cache: str | Path | None) -> Data:
    """Tensors `x` and `y`, and in the header optionally `classes`, `features` and `bounds` as JSON lists."""
    tensors, texts = map_safetensors(path)
    arrays: dict[str, Any] = {name: one if name == "x" else one.all() for name, one in tensors.items()}
    for name in ("classes", "features", "bounds"):
        if name in texts:
            arrays[name] = json.loads(texts[name])
    return _from_arrays(path, arrays, in_memory, Kept(stamp([path]), cache))


def _from_arrays(path: Path, arrays: Mapping[str, Any], in_memory: int, fingerprints: Kept) -> Data:
    if not {"x", "y"} <= set(arrays):
        raise DataError(f"{path.name} must hold the arrays 'x' and 'y'. It holds: {', '.join(arrays) or 'nothing'}.")
    bounds = tuple(float(value) for value in arrays["bounds"]) if "bounds" in arrays else None
    if bounds is not None and len(bounds) != 2:
        raise DataError(f"'bounds' in {path.name} must be (low, high). Got {bounds}.")
    return assemble(
        arrays["x"],
        arrays["y"],
        [str(name) for name in arrays["classes"]] if "classes" in arrays else None,
        path.stem,
        features=tuple(str(name) for name in arrays["features"]) if "features" in arrays else None,
        bounds=(bounds[0], bounds[1]) if bounds is not None else None,
        in_memory=in_memory,
        fingerprints=fingerprints,
    )


def _image_folder(path: Path, shape: tuple[int, ...] | None = None) -> Data:
    """One sub-folder per class, called as the class is; without any, all pictures are of the one class "unlabelled".

    Grey if all pictures are grey, else RGB (without alpha); or of `shape` (channels, height, width).
    """
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    found = [
        (p, i) for i, f in enumerate(folders or [path]) for p in sorted(f.iterdir()) if p.suffix.lower() in PICTURES
    ]
    empty = [folder.name for i, folder in enumerate(folders) if i not in {label for _, label in found}]
    if not found or empty:
        raise DataError(
            f"{path} must hold a sub-folder with pictures ({', '.join(PICTURES)}) for each class. "
            + (f"There are none in: {', '.join(empty)}." if empty else "It has no sub-folders and no pictures.")
        )
    return _pictures(found, tuple(folder.name for folder in folders) or (UNLABELLED,), shape)


def _pictures(found: list[tuple[Path, int]], classes: tuple[str, ...], shape: tuple[int, ...] | None) -> Data:
    if shape is not None and (len(shape) != 3 or shape[0] not in (1, 3)):
        raise DataError(f"Pictures have the shape (1 or 3, height, width). They cannot be given the shape {shape}.")
    colour = not all(is_grey(picture) for picture, _ in found) if shape is None else shape[0] == 3
    encoded = ((str(picture), picture.read_bytes()) for picture, _ in found)
    x = decode_photos(encoded, len(found), colour=colour, fit=(shape[1], shape[2]) if shape is not None else None)
    return Data(x, torch.tensor([label for _, label in found]), classes, bounds=(0.0, 1.0))


def from_torch(dataset: Dataset[Any], *, classes: Sequence[str] | None = None, name: str = "data") -> Data:
    """All examples of a torch Dataset of pairs (tensor, label), read into memory.

    The class names are `classes`, else the dataset's own attribute `classes`, else the numbers.

    >>> from torch.utils.data import TensorDataset
    >>> from_torch(TensorDataset(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])), classes=("no", "yes"))
    Data('data', n=4, shape=(2,), classes=2)
    """
    count = len(dataset) if hasattr(dataset, "__len__") else None
    xs, ys = [], []
    with progress.task(f"read {name}", total=count) as task:
        # By index where there is a length: a Dataset need not know how to end an iteration.
        examples = (dataset[index] for index in range(count)) if count is not None else iter(dataset)
        for x, y in examples:
            if not isinstance(x, torch.Tensor):
                raise DataError(
                    f"The examples of the torch Dataset must be tensors. Got {type(x).__name__}. For pictures, give "
                    "the Dataset the transform torchvision.transforms.ToTensor()."
                )
            xs.append(x)
            ys.append(int(y))
            task.advance()
    if len({x.shape for x in xs}) != 1:
        shapes = sorted({tuple(x.shape) for x in xs})
        raise DataError(f"The examples of the torch Dataset must have one shape. Got {shapes or 'no examples'}.")
    named = classes if classes is not None else getattr(dataset, "classes", None)
    return assemble(torch.stack(xs).numpy(), np.array(ys), None if named is None else list(named), name)


def _csv(path: Path) -> dict[str, Column]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = list(csv.reader(file, strict=True)) or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from error
    names = [name.strip() for name in header]
    if len(set(names)) != len(names) or "" in names:
        raise DataError(f"The first line of {path.name} must name every column, each differently. Got: {names}.")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise DataError(f"Line {number} of {path.name} has {len(row)} values, the header has {len(names)}.")
    return {name: column([row[i] for row in rows]) for i, name in enumerate(names)}


def _parquet(path: Path) -> dict[str, Column]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtra("formats", "pyarrow", "Reading Parquet files") from error
    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}.") from error
    columns: dict[str, Column] = {}
    for name in table.column_names:
        values = table[name].to_pylist()
        numbers = all(value is None or isinstance(value, int | float) for value in values)
        columns[name] = (
            np.array([np.nan if value is None else float(value) for value in values])
            if numbers
            else np.array([None if value is None else str(value) for value in values], dtype=object)
        )
    return columns
