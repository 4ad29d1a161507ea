"""Small trained models that come with the package, so that a first try needs no training and no download."""

from __future__ import annotations

from importlib.resources import as_file, files

import torch

from modelkeep.core.model import Model


def digits_cnn(*, device: str | torch.device = "cpu") -> Model:
    """A small CNN for scikit-learn's digits: 13,706 parameters, trained on the train part. `demo` audits it."""
    return _load("digits_cnn", device)


def digits_certified(*, device: str | torch.device = "cpu") -> Model:
    """A CNN for the same digits whose answers can be proved: 22,406 parameters, GloRo training at the l2 radius 0.3."""
    return _load("digits_certified", device)


def clinic(*, device: str | torch.device = "cpu") -> Model:
    """A dense network for the breast cancer data: 1,982 parameters, trained on half of the train part.

    `datasets.load("breast-cancer").split(0.5, 0.5, seed=0)` gives the patients that it learned, and others.
    """
    return _load("clinic", device)


def _load(name: str, device: str | torch.device) -> Model:
    """The model of a file beside this module; `tools/embedded_models.py` makes these files."""
    with as_file(files("modelkeep.zoo") / f"{name}.safetensors") as path:
        return Model.load(path, device=device)
