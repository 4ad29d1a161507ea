"""Labeled Faces in the Wild: the two subsets of Leino2022, read out of the funneled archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import copy_whole, open_tar
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.photos import decode_photos

ARCHIVE = "lfw-funneled.tgz"
# (left, top, right, bottom) of the face in a 250×250 picture: the one that scikit-learn cuts, and a square around it.
_FACE = (78, 70, 172, 195)
SQUARE = (63, 70, 188, 195)


def _faces(
    files: Mapping[str, Path],
    *,
    at_least: int,
    colour: bool,
    crop: tuple[int, int, int, int],
    size: tuple[int, int],
) -> Data:
    """The people with at least `at_least` pictures: lfw_funneled/PERSON/PERSON_0001.jpg."""
    pictures = {}
    with open_tar(files[ARCHIVE]) as packed:
        # In the archive's own order: going back in a compressed file is slow.
        for info in packed:
            file = packed.extractfile(info) if info.name.endswith(".jpg") else None
            if file is not None:
                pictures[info.name] = file.read()
    counts = Counter(name.split("/")[-2] for name in pictures)
    people = sorted(person for person, count in counts.items() if count >= at_least)
    names = sorted(name for name in pictures if name.split("/")[-2] in people)
    x = decode_photos(((name, pictures[name]) for name in names), len(names), colour=colour, crop=crop, size=size)
    y = torch.tensor([people.index(name.split("/")[-2]) for name in names])
    return Data(x, y, tuple(person.replace("_", " ") for person in people), bounds=(0.0, 1.0))


def _five(files: Mapping[str, Path], part: Part) -> Data:
    return _faces(files, at_least=100, colour=False, crop=_FACE, size=(37, 50))


def _twelve(files: Mapping[str, Path], part: Part) -> Data:
    return _faces(files, at_least=50, colour=True, crop=SQUARE, size=(64, 64))


FILES = (
    File(
        ARCHIVE,
        "sha256:b47c8422c8cded889dc5a13418c4bc2abbda121092b3533a83306f90d900100a",
        (
            Source("https://ndownloader.figshare.com/files/5976015", copy_whole),
            Source("http://vis-www.cs.umass.edu/lfw/lfw-funneled.tgz", copy_whole),
        ),
    ),
)

LFW = declare("dataset", "lfw", does="LFW faces, the 5 most frequent")(
    DataSet(
        kind="images",
        shape=(1, 50, 37),
        classes=5,
        rows={"train": 912, "test": 228},
        licence="research only",
        home="http://vis-www.cs.umass.edu/lfw",
        parse=_five,
        files=FILES,
        shares=(0.8, 0.2),
        notes="People with 100 pictures or more; grey, the face cut out and scaled to 50×37 (Leino2022, section 8.3).",
    )
)

_LFW_12 = declare("dataset", "lfw-12", does="LFW faces, the 12 most frequent")(
    DataSet(
        kind="images",
        shape=(3, 64, 64),
        classes=12,
        rows={"train": 1248, "test": 312},
        licence="research only",
        home="http://vis-www.cs.umass.edu/lfw",
        parse=_twelve,
        files=FILES,
        shares=(0.8, 0.2),
        notes="People with 50 pictures or more; colour, 64×64 (Leino2022, section 8.5, which does not give its cut).",
    )
)
