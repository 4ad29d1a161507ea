"""timm: a network by its name, and built again from the name alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from modelkeep.core.errors import ModelError
from modelkeep.core.formats.weights import load_weights, read_weights

TIMM = re.compile(r"timm/(?P<name>[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?)")
"""How a user names one: timm/resnet18.a1_in1k."""
FACTORY = "timm:create_model"
_ARGUMENTS = {"model_name": str, "num_classes": int, "in_chans": int}


def read_timm(source: str, weights: Path | None) -> tuple[nn.Module, dict[str, Any]]:
    """The network with the weights of a file, else with those that timm downloads for the name; and its card."""
    match = TIMM.fullmatch(source)
    assert match is not None
    timm = _timm()
    arguments: dict[str, Any] = {"model_name": match["name"]}
    try:
        module = timm.create_model(match["name"], pretrained=weights is None)
    except Exception as error:  # whatever timm says about a name, or a download that fails
        raise ModelError(
            f"timm cannot make '{match['name']}': {error}. Where it cannot download, give its file: --weights FILE."
        ) from error
    if weights is not None:
        load_weights(module, read_weights(weights)[0], weights)
    settings: Mapping[str, Any] = module.pretrained_cfg
    card = {
        "architecture": FACTORY,
        "arguments": {**arguments, "num_classes": int(module.num_classes)},
        "input_shape": tuple(settings["input_size"]),
        "classes": list(settings.get("label_names") or map(str, range(module.num_classes))),
        "preprocessing": {"mean": tuple(settings["mean"]), "std": tuple(settings["std"])},
        "bounds": (0.0, 1.0),
    }
    return module, card


def build_timm(arguments: Mapping[str, Any], source: object) -> nn.Module:
    """The network of a name, with weights drawn anew: nothing is downloaded."""
    fit = all(isinstance(value, _ARGUMENTS.get(name, type(None))) for name, value in arguments.items())
    if not fit or TIMM.fullmatch(f"timm/{arguments.get('model_name', '')}") is None:
        raise ModelError(
            f"'{source}' names {FACTORY}, which takes {', '.join(_ARGUMENTS)} here. Got {dict(arguments)}."
        )
    with torch.random.fork_rng(devices=[]):
        module = _timm().create_model(**arguments, pretrained=False)
    assert isinstance(module, nn.Module)
    return module


def _timm() -> Any:
    try:
        import timm  # type: ignore[import-not-found, unused-ignore]
    except Exception as error:  # with a torchvision that does not fit, its import raises RuntimeError
        raise ModelError(
            f"A network of timm needs the package timm, which cannot be imported here: {error}. It needs a torchvision "
            "that fits the installed torch: pip install timm torchvision."
        ) from error
    return timm
