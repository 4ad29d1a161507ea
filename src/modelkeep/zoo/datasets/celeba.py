"""CelebA: portraits of celebrities; the class is whether people call the face attractive, as in Leino2022."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.dataset import DataSet, File, Part
from modelkeep.zoo.datasets.photos import decode_photos

PICTURES = "img_align_celeba.zip"
ATTRIBUTES = "list_attr_celeba.txt"
PARTS = "list_eval_partition.txt"
_ATTRIBUTE = "Attractive"

# The middle square of a 178×218 portrait.
SQUARE = (0, 20, 178, 198)
_NUMBER = {"train": "0", "test": "2"}


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    # The attributes: a line with the count, a line of names, then a line per picture with 1 or -1 per name.
    _, header, *lines = files[ATTRIBUTES].read_text("ascii").splitlines()
    if _ATTRIBUTE not in header.split():
        raise DataError(f"{ATTRIBUTES} has no column '{_ATTRIBUTE}'.")
    column = header.split().index(_ATTRIBUTE) + 1
    attractive = {line.split()[0]: int(line.split()[column] == "1") for line in lines}
    # The parts: a line per picture with 0 (train), 1 (validation) or 2 (test).
    pairs = [line.split() for line in files[PARTS].read_text("ascii").splitlines()]
    names = [name for name, number in pairs if number == _NUMBER[part]]
    with zipfile.ZipFile(files[PICTURES]) as packed:
        pictures = ((name, packed.read(f"img_align_celeba/{name}")) for name in names)
        x = decode_photos(pictures, len(names), crop=SQUARE, size=(64, 64))
    return Data(x, torch.tensor([attractive[name] for name in names]), ("not attractive", "attractive"), bounds=(0, 1))


_CELEBA = declare("dataset", "celeba", does="CelebA portraits, attractive or not")(
    DataSet(
        kind="images",
        shape=(3, 64, 64),
        classes=2,
        rows={"train": 162_770, "test": 19_962},
        licence="non-commercial research only",
        home="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        parse=_parse,
        files=(
            File(PICTURES, "md5:00d2c5bc6d35e252742224ab0c1e8fcb"),
            File(ATTRIBUTES, "md5:75e246fa4810816ffd6ee81facbd244c"),
            File(PARTS, "md5:d32c9cbf5e040fd4025c592c306e6668"),
        ),
        notes="The authors share it through Google Drive only: download the three files there, then use --from. The "
        "middle square, scaled to 64×64; the validation part is not used. Train needs 8 GB.",
    )
)
