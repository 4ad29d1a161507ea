"""EuroSAT: land use in satellite pictures, read out of the authors' zip of JPEG files."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import copy_whole
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.photos import decode_photos

ARCHIVE = "EuroSAT.zip"


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    """A picture is at 2750/CLASS/CLASS_NUMBER.jpg."""
    with zipfile.ZipFile(files[ARCHIVE]) as packed:
        names = sorted(name for name in packed.namelist() if name.endswith(".jpg"))
        kinds = [name.split("/")[-2] for name in names]
        classes = sorted(set(kinds))
        x = decode_photos(((name, packed.read(name)) for name in names), len(names))
    return Data(x, torch.tensor([classes.index(kind) for kind in kinds]), tuple(classes), bounds=(0.0, 1.0))


_EUROSAT = declare("dataset", "eurosat", does="EuroSAT land use from satellites")(
    DataSet(
        kind="images",
        shape=(3, 64, 64),
        classes=10,
        rows={"train": 18_000, "test": 9_000},
        licence="MIT",
        home="https://github.com/phelber/EuroSAT",
        parse=_parse,
        files=(
            File(
                ARCHIVE,
                "md5:c8fa014336c82ac7804f0398fcb19387",
                (
                    Source("https://madm.dfki.de/files/sentinel/EuroSAT.zip", copy_whole),
                    Source(
                        "https://huggingface.co/datasets/torchgeo/eurosat/resolve/c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip",
                        copy_whole,
                    ),
                ),
            ),
        ),
        shares=(2 / 3, 1 / 3),
        notes="The RGB version. Split as in Leino2022: two thirds to train.",
    )
)
