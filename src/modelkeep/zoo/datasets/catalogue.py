"""All built-in data sets by name. Each is declared in its own file, which is imported when the set is asked for."""

from __future__ import annotations

from dataclasses import replace

from modelkeep.core import registry
from modelkeep.core.errors import DataError, InputError, UnknownData
from modelkeep.zoo.datasets.dataset import DataSet


def names() -> tuple[str, ...]:
    """The names of all declared sets, in alphabetical order."""
    return tuple(sorted(registry.declarations("dataset")))


def find(name: str) -> DataSet:
    """The set called `name`; upper case, blanks and underscores do not matter."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    try:
        declaration = registry.find("dataset", plain)
    except InputError as error:
        raise UnknownData(str(error)) from None
    dataset = declaration.load()
    if not isinstance(dataset, DataSet):
        raise DataError(f"The dataset '{plain}' must be a DataSet. {declaration.home} is {dataset!r}.")
    return replace(dataset, name=declaration.name, title=declaration.does)
