"""Taxonomy: the ids of public taxonomies for a finding, from one data file."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


def classify(finding: str) -> tuple[str, ...]:
    """The ids for a finding's id: those of the whole id where the file has it, else those of its check.

    >>> classify("membership.leaks")[1]
    'MITRE ATLAS AML.T0024.000'
    """
    told = read_taxonomy()["findings"]
    found: dict[str, list[str]] = told.get(finding) or told.get(finding.partition(".")[0], {})
    names = read_taxonomy()["taxonomies"]
    return tuple(f"{names[key]['name']} {each}" for key in names for each in found.get(key, []))


@cache
def read_taxonomy() -> dict[str, Any]:
    """The data file: the taxonomies with their versions, and the ids of each check or finding."""
    return tomllib.loads(files("modelkeep.report").joinpath("taxonomy.toml").read_text(encoding="utf-8"))


def split_id(told: str) -> tuple[str, str]:
    """The name of the taxonomy and the id in it.

    >>> split_id("MITRE ATLAS AML.T0015")
    ('MITRE ATLAS', 'AML.T0015')
    """
    names = [each["name"] for each in read_taxonomy()["taxonomies"].values()]
    name = next((each for each in names if told.startswith(f"{each} ")), told.rpartition(" ")[0])
    return name, told.removeprefix(name).strip()


def name_id(told: str) -> str:
    """The name of an id in its taxonomy; empty for one that the data file does not have.

    >>> name_id("MITRE ATLAS AML.T0015")
    'Evade AI Model'
    """
    name, id = split_id(told)
    names: dict[str, dict[str, str]] = {each["name"]: each["names"] for each in read_taxonomy()["taxonomies"].values()}
    return names.get(name, {}).get(id, "")
