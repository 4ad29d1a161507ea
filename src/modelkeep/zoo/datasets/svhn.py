"""SVHN: photographed house numbers, cropped to one digit (format 2: MATLAB files)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import copy_whole
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    name = f"{part}_32x32.mat"
    try:
        found = loadmat(files[name])
        images, labels = torch.from_numpy(found["X"]), torch.from_numpy(found["y"].astype("int64")).flatten()
    except (MatReadError, KeyError, ValueError, NotImplementedError) as error:
        raise DataError(f"{name} is not a MATLAB file with the arrays X and y: {error}.") from error
    # X is (height, width, channel, n), and the digit 0 has the label 10.
    return Data(
        images.permute(3, 2, 0, 1).contiguous().float().div_(255),
        labels % 10,
        tuple(map(str, range(10))),
        bounds=(0.0, 1.0),
    )


def _file(name: str, md5: str) -> File:
    return File(name, f"md5:{md5}", (Source(f"http://ufldl.stanford.edu/housenumbers/{name}", copy_whole),))


SVHN = declare("dataset", "svhn", does="SVHN house numbers")(
    DataSet(
        kind="images",
        shape=(3, 32, 32),
        classes=10,
        rows={"train": 73_257, "test": 26_032},
        licence="non-commercial use only",
        home="http://ufldl.stanford.edu/housenumbers",
        parse=_parse,
        files=(
            _file("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            _file("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        ),
        notes="The 'extra' part is not used.",
    )
)
