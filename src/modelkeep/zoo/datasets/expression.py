"""Gene expression: tables with many more features than rows, from Bioconductor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.dataset import DataSet, Part
from modelkeep.zoo.datasets.r_data import r_file, r_table, read_expression_set, read_objects


def _data(levels: NDArray[np.float64], probes: Sequence[str], kinds: Sequence[str]) -> Data:
    classes, y = np.unique(np.asarray(kinds), return_inverse=True)
    return Data(
        torch.from_numpy(levels.astype(np.float32)),
        torch.from_numpy(y.astype(np.int64)),
        tuple(map(str, classes)),
        features=tuple(probes),
    )


def _golub(files: Mapping[str, Path], part: Part) -> Data:
    found = read_objects(files["golub.RData"])
    levels = found["golub"].values.T
    # A matrix of index, name and identifier per gene, stored column by column.
    probes = [str(name) for name in found["golub.gnames"][2 * levels.shape[1] :]]
    return _data(levels, probes, ["AML" if value else "ALL" for value in found["golub.cl"]])


def _bladder(files: Mapping[str, Path], part: Part) -> Data:
    levels, probes, samples = read_expression_set(files["bladderdata.rda"])
    return _data(levels, probes, [str(kind) for kind in samples["cancer"]])


def _leukaemia(files: Mapping[str, Path], part: Part) -> Data:
    levels, probes, samples = read_expression_set(files["ALL.rda"])
    return _data(levels, probes, [f"{str(kind)[0]}-cell" for kind in samples["BT"]])


def _table(
    package: str,
    address: str,
    file: str,
    sha256: str,
    parse: Callable[[Mapping[str, Path], Part], Data],
    features: int,
    classes: int,
    rows: tuple[int, int],
    licence: str,
    notes: str = "",
) -> DataSet:
    debian, address = f"r-bioc-{package.lower()}", f"https://bioconductor.org/packages/3.16/{address}"
    home = f"https://bioconductor.org/packages/{package}"
    source = r_file(file, sha256, package=package, debian=debian, address=address)
    return r_table(source, parse, features, classes, rows, f"{licence} ({package})", home, notes)


_GOLUB = declare("dataset", "golub", does="Golub: leukaemia by genes")(
    _table(
        "multtest",
        "bioc/src/contrib/multtest_2.54.0.tar.gz",
        "golub.RData",
        "d10dfacb0d19be244a7dd3f7b05056640ffc5766116cd4f90d465e7f8657c4d9",
        _golub,
        features=3051,
        classes=2,
        rows=(30, 8),
        licence="LGPL",
        notes="The 38 training samples of Golub et al. 1999, as multtest prepares them.",
    )
)

_BLADDER = declare("dataset", "bladder", does="Bladder cancer by genes")(
    _table(
        "bladderbatch",
        "data/experiment/src/contrib/bladderbatch_1.36.0.tar.gz",
        "bladderdata.rda",
        "e5b3bc3bc9d624eab6b20ff5661622b6df82c40f1cc298ffbd713c834ef898b6",
        _bladder,
        features=22_283,
        classes=3,
        rows=(46, 11),
        licence="Artistic-2.0",
        notes="Classes Biopsy, Cancer, Normal. The samples were measured in five batches, which differ by class.",
    )
)

_LEUKAEMIA = declare("dataset", "leukaemia", does="ALL: leukaemia of B or T cells")(
    _table(
        "ALL",
        "data/experiment/src/contrib/ALL_1.40.0.tar.gz",
        "ALL.rda",
        "0ac685898c761ce7cbcfd9b0fba84820b3c26ca0d56b7dd234b55623ba3b0878",
        _leukaemia,
        features=12_625,
        classes=2,
        rows=(102, 26),
        licence="Artistic-2.0",
    )
)
