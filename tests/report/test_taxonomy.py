"""The ids of findings exist: ATLAS's in its own data of the pinned version; and every finding has some, or a reason."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import modelkeep
from modelkeep.core.registry import declarations
from modelkeep.report.taxonomy import classify, name_id, read_taxonomy

AUDIT = Path(modelkeep.__file__).parent / "audit"
_ID = re.compile(r'\bid=f?"(?P<check>[a-z][a-z-]*)\.')


def test_atlas_has_each_id_under_that_name() -> None:
    told = read_taxonomy()["taxonomies"]["atlas"]
    path = Path(__file__).parent / f"atlas-{told['version']}-ids.csv"  # the version of the data is that of the file
    with path.open(encoding="utf-8") as file:
        known = {row["id"]: row["name"] for row in csv.DictReader(file)}
    assert told["names"] == {id: known[id] for id in told["names"]}


def test_each_id_in_use_has_a_name() -> None:
    told = read_taxonomy()
    used: dict[str, set[str]] = {key: set() for key in told["taxonomies"]}
    for finding in told["findings"].values():
        for key, ids in finding.items():
            used[key].update(ids)
    for key, ids in used.items():
        assert ids <= set(told["taxonomies"][key]["names"]), f"{key}: an id without a name"
    for finding in told["findings"]:
        ids = classify(finding)
        assert ids
        assert all(name_id(each) for each in ids)


def test_ids_have_the_form_of_their_taxonomy() -> None:
    forms = {
        "nist": r"NISTAML\.0\d\d?",
        "atlas": r"AML\.T\d{4}(\.\d{3})?",
        "owasp": r"ML(0[1-9]|10):2023",
        "eu": r"Art\. \d+\(\d+\)|Annex [IVX]+",
    }
    for key, form in forms.items():
        for id in read_taxonomy()["taxonomies"][key]["names"]:
            assert re.fullmatch(form, id), id


def test_every_finding_of_every_check_is_classified_or_left_out_with_a_reason() -> None:
    texts = [path.read_text(encoding="utf-8") for path in AUDIT.rglob("*.py")]
    found = {match["check"] for text in texts for match in _ID.finditer(text)}
    found |= set(declarations("check"))  # each has a finding that says that it did not run
    assert {"accuracy", "robustness", "membership"} <= found
    told = read_taxonomy()
    known = {key.partition(".")[0] for key in told["findings"]} | set(told["without"])
    assert found <= known, f"not in taxonomy.toml: {sorted(found - known)}"
    assert not {key.partition(".")[0] for key in told["findings"]} & set(told["without"])
    assert all(told["without"].values())


def test_a_whole_id_holds_alone() -> None:
    told = read_taxonomy()["findings"]
    for id in (each for each in told if "." in each):
        assert classify(id) != classify(id.partition(".")[0])
    assert classify("no-such.finding") == ()
