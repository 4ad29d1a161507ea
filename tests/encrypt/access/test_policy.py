"""A policy denies what it does not name, and refuses what it does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelkeep.core.errors import InputError
from modelkeep.encrypt.access.policy import AccessPolicy

TEXT = """
[attributes]
role = ["clinician", "auditor"]
ward = ["a", "b", "c"]

[principals.anna]
role = ["clinician"]
ward = ["a", "c"]

[principals.ben]
role = ["auditor"]
ward = ["a"]

[principals.carl]

[rules]
ask = "role == clinician and ward in {a, b}"
log = "role == auditor"
"""


def policy(folder: Path) -> AccessPolicy:
    file = folder / "access.toml"
    file.write_text(TEXT)
    return AccessPolicy.read(file)


def test_only_what_a_rule_permits_is_permitted(tmp_path: Path) -> None:
    read = policy(tmp_path)
    permitted = {
        (who, what)
        for who in ("anna", "ben", "carl", "dora", "", "ANNA", "anna ", "operator", "anonymous")
        for what in ("ask", "log", "ASK", "ask ", "", "rules")
        if read.permits(who, what)
    }
    assert permitted == {("anna", "ask"), ("ben", "log")}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rules": {"ask": "rolle == clinician"}}, "the attribute 'rolle', which is not declared"),
        ({"rules": {"ask": "role == clinican"}}, "'clinican' for 'role', which is not declared"),
        ({"rules": {"ask": ""}}, "needs the name of an attribute"),
        ({"rules": {"ask": True}}, "valid string"),
        ({"principals": {"anna": {"role": ["boss"]}}}, "'boss' for 'role', which is not declared"),
        ({"principals": {"operator": {}}}, "opens guard's dashboard"),
        ({"default": "permit"}, "Extra inputs"),
    ],
)
def test_a_policy_with_a_mistake_is_refused(changed: dict[str, Any], said: str) -> None:
    values = {
        "attributes": {"role": ["clinician"]},
        "principals": {"anna": {"role": ["clinician"]}},
        "rules": {"ask": "role == clinician"},
    }
    assert AccessPolicy.from_values(values).permits("anna", "ask")
    with pytest.raises(InputError, match=said):
        AccessPolicy.from_values(values | changed)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml cannot be read"):
        AccessPolicy.read(tmp_path / "none.toml")
