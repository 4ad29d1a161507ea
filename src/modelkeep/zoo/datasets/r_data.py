"""Read R's data files (.rda): tables, and the expression sets of Bioconductor. Needs the package `rdata`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.encoder import Column
from modelkeep.core.errors import DataError, MissingExtra
from modelkeep.zoo.datasets.archives import unpack_member
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source

# R files of that age do not say how texts are encoded; Latin-1 reads any byte.
_ENCODING = "latin1"


def r_file(name: str, sha256: str, *, package: str, debian: str, address: str) -> File:
    """The file `data/NAME` of an R package, from its source archive or from Debian's build of it."""
    return File(
        name,
        f"sha256:{sha256}",
        (
            Source(address, unpack_member(f"{package}/data/{name}")),
            Source(f"apt:{debian}", unpack_member(f"usr/lib/R/site-library/{package}/data/{name}")),
        ),
    )


def r_table(
    file: File,
    parse: Callable[[Mapping[str, Path], Part], Data],
    features: int,
    classes: int,
    rows: tuple[int, int],
    licence: str,
    home: str,
    notes: str = "",
) -> DataSet:
    """A table of an R package, one file; four fifths of its rows are for training."""
    return DataSet(
        kind="table",
        shape=(features,),
        classes=classes,
        rows={"train": rows[0], "test": rows[1]},
        licence=licence,
        home=home,
        parse=parse,
        files=(file,),
        shares=(0.8, 0.2),
        notes=notes,
    )


def read_objects(path: Path) -> dict[str, Any]:
    """The R objects in the file, by name, as pandas and NumPy objects."""
    found = _rdata().read_rda(path, default_encoding=_ENCODING)
    assert isinstance(found, dict)
    return found


def read_columns(table: Any, *, numeric: bool = False) -> dict[str, Column]:
    """The columns of an R data frame: factors as texts, or as the numbers that their levels say where `numeric`."""
    read: dict[str, Column] = {}
    for name in table.columns:
        values = table[name]
        texts = not numeric and str(values.dtype) in ("category", "string", "object")
        if texts:
            read[name] = np.array(
                [None if gap else str(v) for v, gap in zip(values, values.isna(), strict=True)], object
            )
        else:
            read[name] = np.array([np.nan if gap else float(v) for v, gap in zip(values, values.isna(), strict=True)])
    return read


def read_expression_set(path: Path) -> tuple[NDArray[np.float64], list[str], Any]:
    """An ExpressionSet: the levels `(samples, probes)`, the probes' names, the table that describes the samples.

    Only these parts are converted: the rest of such an object is R code, which is not needed here.
    """
    rdata = _rdata()
    (found,) = dict(_pairs(rdata.parser.parse_file(path).object)).values()
    slots = dict(_pairs(found.attributes))
    environment = slots["assayData"].value
    tables = [environment.frame]
    if environment.hash_table.info.type is rdata.parser.RObjectType.VEC:
        tables.extend(environment.hash_table.value)
    assay = {name: value for table in tables for name, value in _pairs(table)}
    if "exprs" not in assay:
        raise DataError(f"{path} holds no expression levels.")
    levels = rdata.conversion.convert(assay["exprs"], default_encoding=_ENCODING)
    samples = rdata.conversion.convert(dict(_pairs(slots["phenoData"].attributes))["data"], default_encoding=_ENCODING)
    return levels.values.T, [str(name) for name in levels.coords["dim_0"].values], samples


def _pairs(node: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of R's linked list; a name that occurred before is stored as a reference to it."""
    kinds = _rdata().parser.RObjectType
    while node is not None and node.info.type is kinds.LIST:
        tag = node.tag.referenced_object if node.tag.info.type is kinds.REF else node.tag
        yield tag.value.value.decode(_ENCODING), node.value[0]
        node = node.value[1]


def _rdata() -> Any:
    try:
        import rdata
    except ImportError as error:
        raise MissingExtra("formats", "rdata", "Reading R data files") from error
    return rdata
