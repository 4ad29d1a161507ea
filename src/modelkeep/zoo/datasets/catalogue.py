"""All built-in data sets, found by name."""

from __future__ import annotations

from difflib import get_close_matches

from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets import (
    acas_xu,
    adult,
    bundled,
    celeba,
    cifar,
    compas,
    eurosat,
    expression,
    german,
    kernlab,
    lfw,
    mlbench,
    mnist,
    quickdraw,
    svhn,
    tiny_imagenet,
)
from modelkeep.zoo.datasets.dataset import DataSet

_HOMES = (
    bundled,
    mnist,
    cifar,
    svhn,
    quickdraw,
    tiny_imagenet,
    eurosat,
    lfw,
    celeba,
    adult,
    german,
    compas,
    mlbench,
    kernlab,
    expression,
    acas_xu,
)
SETS: dict[str, DataSet] = {dataset.name: dataset for home in _HOMES for dataset in home.SETS}


def find(name: str) -> DataSet:
    """The set called `name`; upper case, blanks and underscores do not matter."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    if plain in SETS:
        return SETS[plain]
    close = get_close_matches(plain, SETS, n=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(repr(match) for match in close)}?" if close else ""
    raise DataError(f"There is no data set '{name}'.{meant} There are: {', '.join(SETS)}.")
