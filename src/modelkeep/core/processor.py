"""Processor: what a Hugging Face `preprocessor_config.json` says about the pictures that a network takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelkeep.core.errors import ModelError

FILE = "preprocessor_config.json"
_GREY_LEVELS = 255


def read_processor(path: Path) -> dict[str, Any]:
    """The fields of a `Card` that the file gives: preprocessing, bounds and, where it names a size, input_shape.

    Hugging Face's processors start from grey levels 0..255; inputs here are 0..1. Both give the same to the network.
    """
    if path.is_dir():
        path = path / FILE
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return _card(told)
    except OSError as error:
        raise ModelError(f"The processor config cannot be read from '{path}': {error.strerror}.") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"'{path}' is not a Hugging Face processor config of pictures: {error!r}.") from error


def _card(told: Mapping[str, Any]) -> dict[str, Any]:
    # x = 255 · factor · v − offset for a value v of 0..1, then (x − mean) / std.
    rescales = told.get("do_rescale", True)
    scale = _GREY_LEVELS * (float(told.get("rescale_factor", 1 / _GREY_LEVELS)) if rescales else 1.0)
    offset = 1.0 if rescales and told.get("rescale_offset") else 0.0
    mean, std = [0.0], [1.0]
    if told.get("do_normalize", True) and told.get("image_mean") is not None:
        mean, std = _each(told["image_mean"]), _each(told["image_std"])
    means = tuple((each + offset) / scale for each in mean)
    deviations = tuple(each / scale for each in std)
    card: dict[str, Any] = {"bounds": (0.0, 1.0)}
    if any(means) or any(each != 1 for each in deviations):
        card["preprocessing"] = {"mean": means, "std": deviations}
    size = _size(told.get("crop_size") if told.get("do_center_crop") else None) or _size(told.get("size"))
    if size is not None:
        channels = len(mean) if len(mean) > 1 else 3
        card["input_shape"] = (channels, *size)
    return card


def _each(numbers: float | Sequence[float]) -> list[float]:
    return [float(numbers)] if isinstance(numbers, int | float) else [float(each) for each in numbers]


def _size(told: Any) -> tuple[int, int] | None:
    """Height and width; where only the shorter side is named, the middle square of it."""
    if isinstance(told, int):
        return told, told
    if isinstance(told, dict) and "height" in told:
        return int(told["height"]), int(told["width"])
    if isinstance(told, dict) and "shortest_edge" in told:
        return int(told["shortest_edge"]), int(told["shortest_edge"])
    return None
