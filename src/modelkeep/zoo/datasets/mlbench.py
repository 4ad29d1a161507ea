"""The classification sets of the R package mlbench: classic tables from UCI, cleaned and with names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.dataset import DataSet, Part
from modelkeep.zoo.datasets.r_data import r_file, r_table, read_columns, read_objects
from modelkeep.zoo.datasets.tables import encode

ADDRESS = "https://cran.r-project.org/src/contrib/Archive/mlbench/mlbench_2.1-3.tar.gz"

_INDICATED = "Missing values become 0, with a 1 in an added feature 'COLUMN is missing'."
_CATEGORY = "Missing values become a category of their own, 'COLUMN=?'."

_SHA256 = {
    "BreastCancer": "9db3be6e249253fc65d73f49387edb5aac4a8887021f7f7d9275c176379f0d36",
    "DNA": "2b15a9b2d1dfb0c08f108668e2ac65c7720499a022636140eccae92d4c06b291",
    "Glass": "6d740b8023661263c637f261e1d7c24b6fdb9dbe65aacbb67d95e3865171da6c",
    "HouseVotes84": "3664bf0629ff2e4ced7b005f342418c75373b46fbcea5ebc76d61ceff39b7e75",
    "Ionosphere": "523cb7e48833e40bae413dde7889eeed5a54e7900cfd1016aa12502a99186267",
    "LetterRecognition": "92844a4562cfe66720dea2b19f30cf83c155dec85c96a20f041f3e4e6db01c61",
    "PimaIndiansDiabetes2": "a95dc697aa7f19a305ab62e015e3cbd7bc578a883cc2b6ba691440deab534144",
    "Satellite": "0d19410b263fbb562334e10aa48d045db6cdec88ca886a42445f74a8671d1b22",
    "Shuttle": "f9d3d58df57332c5f7781162081c4a1169daa24afafc3b63fb729fefd81252aa",
    "Sonar": "c073818b2efccc5a5828d845ecea2d99f0f2a810737d79eab904caca0b21c6e6",
    "Soybean": "ad583763e78ea42e5f023e08dd115f99898cff9b4839091a1efefed45737777b",
    "Vehicle": "bb9b43b8bd2b087cd2fda9715acf4076437a0416d0a04ed9a90c38c50e5df598",
    "Vowel": "eefe4e7c077a7637bc53aeef0fb9fd1f3abda57ea27859f2ea251839966a8ac6",
    "Zoo": "aeed79ccd9b13a654092b2f3673599f5ced715f76d2aa867cb1246f73ba3ef3f",
}


def _set(
    table: str,
    label: str,
    features: int,
    classes: int,
    rows: tuple[int, int],
    ignore: str = "",
    numeric: bool = False,
    notes: str = "",
) -> DataSet:
    """One table. `numeric`: the levels of its factors are numbers; otherwise factors become one-hot features."""

    def parse(files: Mapping[str, Path], part: Part) -> Data:
        frame = read_objects(files[f"{table}.rda"])[table]
        read = read_columns(frame.drop(columns=[label, *filter(None, [ignore])]), numeric=numeric)
        return encode({**read, label: read_columns(frame[[label]])[label]}, label, name=table, missing="indicate")

    file = r_file(f"{table}.rda", _SHA256[table], package="mlbench", debian="r-cran-mlbench", address=ADDRESS)
    licence, home = "GPL-2 (mlbench)", "https://cran.r-project.org/package=mlbench"
    return r_table(file, parse, features, classes, rows, licence, home, notes)


_WISCONSIN = declare("dataset", "wisconsin", does="Breast cancer Wisconsin (original)")(
    _set(
        "BreastCancer",
        "Class",
        features=10,
        classes=2,
        rows=(559, 140),
        ignore="Id",
        numeric=True,
        notes="The sample's number is left out. " + _INDICATED,
    )
)

DNA = declare("dataset", "dna", does="Splice junctions in DNA")(
    _set("DNA", "Class", features=180, classes=3, rows=(2549, 637), numeric=True)
)

_GLASS = declare("dataset", "glass", does="Glass, by chemical analysis")(
    _set("Glass", "Type", features=9, classes=6, rows=(171, 43), notes="Class 4 of UCI's documentation does not occur.")
)

_HOUSE_VOTES = declare("dataset", "house-votes", does="US House votes of 1984 by party")(
    _set("HouseVotes84", "Class", features=48, classes=2, rows=(348, 87), notes=_CATEGORY)
)

_IONOSPHERE = declare("dataset", "ionosphere", does="Radar returns from the ionosphere")(
    _set("Ionosphere", "Class", features=34, classes=2, rows=(281, 70), numeric=True)
)

_LETTER = declare("dataset", "letter", does="Letters in 20 fonts")(
    _set("LetterRecognition", "lettr", features=16, classes=26, rows=(16000, 4000))
)

_PIMA_DIABETES = declare("dataset", "pima-diabetes", does="Pima Indians diabetes")(
    _set(
        "PimaIndiansDiabetes2",
        "diabetes",
        features=13,
        classes=2,
        rows=(614, 154),
        notes="The corrected table, in which impossible zeros are marked as missing. " + _INDICATED,
    )
)

_SATELLITE = declare("dataset", "satellite", does="Landsat pixels by kind of ground")(
    _set("Satellite", "classes", features=36, classes=6, rows=(5148, 1287))
)

_SHUTTLE = declare("dataset", "shuttle", does="Space shuttle radiator positions")(
    _set(
        "Shuttle",
        "Class",
        features=9,
        classes=7,
        rows=(46400, 11600),
        notes="Very unequal classes: the rarest has 10 rows.",
    )
)

_SONAR = declare("dataset", "sonar", does="Sonar returns from mines and rocks")(
    _set("Sonar", "Class", features=60, classes=2, rows=(166, 42))
)

_SOYBEAN = declare("dataset", "soybean", does="Soybean diseases")(
    _set("Soybean", "Class", features=133, classes=19, rows=(546, 137), notes=_CATEGORY)
)

_VEHICLE = declare("dataset", "vehicle", does="Vehicle silhouettes")(
    _set("Vehicle", "Class", features=18, classes=4, rows=(677, 169))
)

_VOWEL = declare("dataset", "vowel", does="Vowels of British English")(
    _set(
        "Vowel",
        "Class",
        features=10,
        classes=11,
        rows=(792, 198),
        numeric=True,
        notes="V1 is the number of the speaker.",
    )
)

_ZOO = declare("dataset", "zoo", does="Animals by kind")(_set("Zoo", "type", features=16, classes=7, rows=(81, 20)))
