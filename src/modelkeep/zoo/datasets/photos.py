"""Decode pictures into tensors: from bytes in an archive or files in a folder, all of one size."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core import progress
from modelkeep.core.errors import DataError

# What Pillow calls pictures without colours.
GREY_MODES = ("1", "L", "LA")


def decode_photos(
    pictures: Iterable[tuple[str, bytes]],
    count: int,
    *,
    colour: bool = True,
    crop: tuple[int, int, int, int] | None = None,
    size: tuple[int, int] | None = None,
    fit: tuple[int, int] | None = None,
) -> torch.Tensor:
    """Pictures `(name, encoded)` as `(n, channels, height, width)` in 0..1.

    `crop` is (left, top, right, bottom) in pixels; then `size` is (width, height) to scale to. `fit` is (height, width)
    to crop each in the middle and scale to. Without any, all pictures must have one size already.
    """
    x: torch.Tensor | None = None
    first = ""
    with progress.task("decode pictures", total=count) as task:
        for index, (name, encoded) in enumerate(pictures):
            with _open_picture(name, io.BytesIO(encoded)) as image:
                array = picture_array(name, image, colour, crop, size, fit)
            if x is None:
                # Filled in place: a list of tensors and its stack would need the memory twice.
                x, first = torch.empty(count, *array.shape), name
            if tuple(x.shape[1:]) != array.shape:
                raise DataError(
                    f"All pictures must have one size. {first} has {x.shape[3]}×{x.shape[2]} pixels, {name} has "
                    f"{array.shape[2]}×{array.shape[1]}. Scale them to one size first."
                )
            x[index] = torch.from_numpy(array)
            task.advance()
    if x is None:
        raise DataError("There are no pictures.")
    return x.div_(255)


def decode_file(path: Path, colour: bool, fit: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """The picture at `path` as `(channels, height, width)` bytes; cropped in the middle and scaled to `fit`."""
    with _open_picture(str(path), path) as image:
        return picture_array(str(path), image, colour, fit=fit)


def is_grey(path: Path) -> bool:
    """Whether the picture at `path` has no colours."""
    with _open_picture(str(path), path) as image:
        return image.mode in GREY_MODES


@contextmanager
def _open_picture(name: str, file: Path | io.BytesIO) -> Iterator[Any]:
    """Open a picture; pillow reads the pixels later, so damage can show up anywhere in the block."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            yield image
    except Image.DecompressionBombError as error:
        raise DataError(f"The picture {name} is not read: {error}") from error
    except OSError as error:
        raise DataError(f"The picture {name} cannot be read: {error}.") from error


def picture_array(
    name: str,
    image: Any,
    colour: bool,
    crop: tuple[int, int, int, int] | None = None,
    size: tuple[int, int] | None = None,
    fit: tuple[int, int] | None = None,
) -> NDArray[np.uint8]:
    """One picture as `(channels, height, width)` bytes."""
    if image.mode.startswith(("I", "F")):  # Pillow would cut them off at 255 without a word.
        raise DataError(f"{name} has more than 8 bits per channel. Convert it to 8 bits first.")
    if crop is not None:
        image = image.crop(crop)
    image = image.convert("RGB" if colour else "L")
    if size is not None:
        image = image.resize(size)
    if fit is not None:
        from PIL import ImageOps

        image = ImageOps.fit(image, (fit[1], fit[0]))
    array = np.array(image)
    return array.transpose(2, 0, 1) if colour else array[None]
