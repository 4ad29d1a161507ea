"""The sets that come with scikit-learn and so need no download: digits, breast cancer, wine."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.dataset import DataSet, Part


def _digits(files: Mapping[str, Path], part: Part) -> Data:
    table = torch.from_numpy(_digit_rows()).float()
    x = table[:, :64].reshape(-1, 1, 8, 8).div(16)  # 16 grey levels above black
    return Data(x, table[:, 64].long(), tuple(map(str, range(10))), bounds=(0.0, 1.0))


def _digit_rows() -> NDArray[np.float64]:
    """The 64 pixels and the label of each digit, from scikit-learn's file: importing all of it takes a second more."""
    package = find_spec("sklearn")
    if package is not None and package.submodule_search_locations:
        file = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
        if file.exists():
            return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    found = load_digits()
    return np.column_stack([found.data, found.target])


def _breast_cancer(files: Mapping[str, Path], part: Part) -> Data:
    from sklearn.datasets import load_breast_cancer

    return _table(load_breast_cancer())


def _wine(files: Mapping[str, Path], part: Part) -> Data:
    from sklearn.datasets import load_wine

    return _table(load_wine())


def _table(found: object) -> Data:
    """What scikit-learn calls a Bunch: arrays and names as attributes."""
    from sklearn.utils import Bunch

    assert isinstance(found, Bunch)
    return Data(
        torch.from_numpy(found.data).float(),
        torch.from_numpy(found.target).long(),
        tuple(map(str, found.target_names)),
        features=tuple(map(str, found.feature_names)),
    )


DIGITS = declare("dataset", "digits", does="Handwritten digits, 8×8")(
    DataSet(
        kind="images",
        shape=(1, 8, 8),
        classes=10,
        rows={"train": 1438, "test": 359},
        licence="CC BY 4.0",
        home="https://archive.ics.uci.edu/dataset/80",
        parse=_digits,
        shares=(0.8, 0.2),
        notes="The test half of UCI's set, as scikit-learn ships it; grey levels 0..16 scaled to 0..1.",
    )
)

_BREAST_CANCER = declare("dataset", "breast-cancer", does="Breast cancer Wisconsin (diagnostic)")(
    DataSet(
        kind="table",
        shape=(30,),
        classes=2,
        rows={"train": 455, "test": 114},
        licence="CC BY 4.0",
        home="https://archive.ics.uci.edu/dataset/17",
        parse=_breast_cancer,
        shares=(0.8, 0.2),
    )
)

_WINE = declare("dataset", "wine", does="Wine cultivars by chemical analysis")(
    DataSet(
        kind="table",
        shape=(13,),
        classes=3,
        rows={"train": 142, "test": 36},
        licence="CC BY 4.0",
        home="https://archive.ics.uci.edu/dataset/109",
        parse=_wine,
        shares=(0.8, 0.2),
    )
)
