"""The sets spam and musk of the R package kernlab."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.dataset import DataSet, Part
from modelkeep.zoo.datasets.r_data import r_file, read_columns, read_objects
from modelkeep.zoo.datasets.tables import encode

ADDRESS = "https://cran.r-project.org/src/contrib/Archive/kernlab/kernlab_0.9-32.tar.gz"


def _spam(files: Mapping[str, Path], part: Part) -> Data:
    return encode(read_columns(read_objects(files["spam.rda"])["spam"]), "type", name="spam")


def _musk(files: Mapping[str, Path], part: Part) -> Data:
    return encode(read_columns(read_objects(files["musk.rda"])["musk"]), "Class", name="musk")


_SPAM = declare("dataset", "spam", does="Spam: words and signs in e-mails")(
    DataSet(
        kind="table",
        shape=(57,),
        classes=2,
        rows={"train": 3681, "test": 920},
        licence="CC BY 4.0 (UCI); GPL-2 (kernlab)",
        home="https://archive.ics.uci.edu/dataset/94",
        parse=_spam,
        files=(
            r_file(
                "spam.rda",
                "7f6ee50cd842dcf923ae023f58c3ccb8ce6e89d1a70dd4464e77350312bcf773",
                package="kernlab",
                debian="r-cran-kernlab",
                address=ADDRESS,
            ),
        ),
        shares=(0.8, 0.2),
    )
)

_MUSK = declare("dataset", "musk", does="Musk: shapes of molecules")(
    DataSet(
        kind="table",
        shape=(166,),
        classes=2,
        rows={"train": 381, "test": 95},
        licence="CC BY 4.0 (UCI); GPL-2 (kernlab)",
        home="https://archive.ics.uci.edu/dataset/74",
        parse=_musk,
        files=(
            r_file(
                "musk.rda",
                "09c998d11820c7ff02bf0f00ec59160a3669d3ae414ddb4a3d142dc67842be58",
                package="kernlab",
                debian="r-cran-kernlab",
                address=ADDRESS,
            ),
        ),
        shares=(0.8, 0.2),
        notes="Version 1, one row per conformation; rows of one molecule are not kept together by the split.",
    )
)
