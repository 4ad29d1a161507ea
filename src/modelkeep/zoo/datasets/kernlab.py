"""The sets spam and musk of the R package kernlab."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.dataset import DataSet, Part
from modelkeep.zoo.datasets.r_data import r_file, r_table, read_columns, read_objects
from modelkeep.zoo.datasets.tables import encode

ADDRESS = "https://cran.r-project.org/src/contrib/Archive/kernlab/kernlab_0.9-32.tar.gz"


def _table(name: str, label: str, sha256: str, features: int, rows: tuple[int, int], home: str, notes: str) -> DataSet:
    def parse(files: Mapping[str, Path], part: Part) -> Data:
        return encode(read_columns(read_objects(files[f"{name}.rda"])[name]), label, name=name)

    file = r_file(f"{name}.rda", sha256, package="kernlab", debian="r-cran-kernlab", address=ADDRESS)
    return r_table(file, parse, features, 2, rows, "CC BY 4.0 (UCI); GPL-2 (kernlab)", home, notes)


_SPAM = declare("dataset", "spam", does="Spam: words and signs in e-mails")(
    _table(
        "spam",
        "type",
        "7f6ee50cd842dcf923ae023f58c3ccb8ce6e89d1a70dd4464e77350312bcf773",
        features=57,
        rows=(3681, 920),
        home="https://archive.ics.uci.edu/dataset/94",
        notes="",
    )
)

_MUSK = declare("dataset", "musk", does="Musk: shapes of molecules")(
    _table(
        "musk",
        "Class",
        "09c998d11820c7ff02bf0f00ec59160a3669d3ae414ddb4a3d142dc67842be58",
        features=166,
        rows=(381, 95),
        home="https://archive.ics.uci.edu/dataset/74",
        notes="Version 1, one row per conformation; rows of one molecule are not kept together by the split.",
    )
)
