"""Tiny ImageNet: 200 classes of 64×64 photographs, read out of the course's zip."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import copy_whole
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.photos import decode_photos

ARCHIVE = "tiny-imagenet-200.zip"
ROOT = "tiny-imagenet-200"


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    with zipfile.ZipFile(files[ARCHIVE]) as packed:
        try:
            identifiers = packed.read(f"{ROOT}/wnids.txt").decode().split()
            words = dict(line.split("\t", 1) for line in packed.read(f"{ROOT}/words.txt").decode().splitlines())
            labelled = _train(packed) if part == "train" else _validation(packed)
        except KeyError as error:
            raise DataError(f"{ARCHIVE} is not complete: {error}.") from error
        x = decode_photos(((name, packed.read(name)) for name, _ in labelled), len(labelled))
    y = torch.tensor([identifiers.index(identifier) for _, identifier in labelled])
    # Two different animals are called "crane" and such, so the WordNet identifier is a part of the name.
    return Data(x, y, tuple(f"{words[i].split(',')[0]} ({i})" for i in identifiers), bounds=(0.0, 1.0))


def _train(packed: zipfile.ZipFile) -> list[tuple[str, str]]:
    """Pictures with their class: ROOT/train/CLASS/images/NAME.JPEG."""
    names = [name for name in packed.namelist() if name.startswith(f"{ROOT}/train/") and name.endswith(".JPEG")]
    return [(name, name.split("/")[2]) for name in sorted(names)]


def _validation(packed: zipfile.ZipFile) -> list[tuple[str, str]]:
    """A line per picture: NAME.JPEG, the class, and the box around the thing."""
    lines = packed.read(f"{ROOT}/val/val_annotations.txt").decode().splitlines()
    return [(f"{ROOT}/val/images/{line.split()[0]}", line.split()[1]) for line in lines]


_TINY_IMAGENET = declare("dataset", "tiny-imagenet", does="Tiny ImageNet photographs")(
    DataSet(
        kind="images",
        shape=(3, 64, 64),
        classes=200,
        rows={"train": 100_000, "test": 10_000},
        licence="research only (ImageNet)",
        home="http://cs231n.stanford.edu",
        parse=_parse,
        files=(
            File(
                ARCHIVE,
                "md5:90528d7ca1a48142e341f4ef8d21d0de",
                (Source(f"http://cs231n.stanford.edu/{ARCHIVE}", copy_whole),),
            ),
        ),
        notes="Test is the validation part: the labels of the test part were never published. Train needs 5 GB.",
    )
)
