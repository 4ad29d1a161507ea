"""Files of arrays, as a `Data`: .npz, .npy, safetensors. Large ones stay on disk."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets.arrays import IN_MEMORY, assemble
from modelkeep.zoo.datasets.kept import Kept, stamp, unpack_member
from modelkeep.zoo.datasets.mapped import map_member, map_npy, map_safetensors, member_sizes

_MOST_BESIDE = 2**30  # bytes of labels, names and bounds: of 100 million examples they take less


def read_npz(path: Path, in_memory: int = IN_MEMORY, cache: str | Path | None = None) -> Data:
    """Arrays `x` and `y`, and optionally `classes` (names), `features` (names) and `bounds` (low, high).

    Bytes of three or more dimensions are images and become 0..1; everything else stays as it is.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            sizes = member_sizes(path)
            huge = [name for name, (_, size) in sizes.items() if name != "x" and size > max(in_memory, _MOST_BESIDE)]
            if huge:
                told = ", ".join(f"'{name}' of {sizes[name][1]:,} bytes" for name in huge)
                raise DataError(f"{path} holds {told}. Only 'x', the examples, may be larger than memory.")
            large = 4 * sizes.get("x", (0, 0))[0] > in_memory
            arrays: dict[str, Any] = {name: found[name] for name in found.files if name != "x" or not large}
        if large:
            arrays["x"] = map_member(path, "x", partial(unpack_member, cache=cache))
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path} cannot be read as .npz: {error}. Objects (pickles) are refused.") from error
    return _from_arrays(path, arrays, in_memory, Kept(stamp([path]), cache))


def read_npy(path: Path, in_memory: int = IN_MEMORY, cache: str | Path | None = None) -> Data:
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
        return map_npy(path).all()
    except OSError as error:
        raise DataError(f"{path} cannot be read as an array: {error}.") from error


def read_safetensors(path: Path, in_memory: int = IN_MEMORY, cache: str | Path | None = None) -> Data:
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
