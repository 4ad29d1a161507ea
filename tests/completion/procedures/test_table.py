"""The table of procedures comes from the declarations, and a text names any of them with its settings."""

from __future__ import annotations

import pytest

from modelkeep.completion.procedures.distillation import Distillation
from modelkeep.completion.procedures.overparametrisation import Overparametrisation
from modelkeep.completion.procedures.rate_search import RateSearch
from modelkeep.completion.procedures.table import PROCEDURES, read_procedure
from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations


def test_each_declaration_has_its_names_in_the_table() -> None:
    # Stored trials hold these names: a change would orphan them.
    assert list(PROCEDURES) == [
        "T1",
        "T2",
        "T3 linear 4x",
        "T3 relu 4x",
        "T4 glorot uniform",
        "T4 glorot normal",
        "T4 msra",
        "T4 caffe",
        "T4 orthogonal",
        "T5",
        "T6",
        "T7",
    ]
    assert {name.split()[0].lower() for name in PROCEDURES} == set(declarations("procedure"))
    assert all(procedure.title for procedure in PROCEDURES.values())


def test_a_text_names_a_procedure_and_its_settings() -> None:
    assert read_procedure("T5 temperature=2") == Distillation(temperature=2.0)
    assert read_procedure("t3 width=8 between=relu") == Overparametrisation(width=8, between="relu")
    assert read_procedure("t7") == RateSearch()
    for name, procedure in PROCEDURES.items():
        assert read_procedure(name) is procedure


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("T9", "There is no procedure 't9'"),
        ("T3 depth=2", "has no setting 'depth=2'. Its settings: width=…, between=…"),
        ("T3 width=wide", "must be a value such as 4. Got 'wide'"),
        ("T3 width=0", "must be at least 1. Got 0"),
        ("T3 between=tanh", "must be one of 'linear', 'relu'"),
        ("T4", "scheme"),
        ("T7 factors=3", "'factors' can only be given in Python"),
        ("", "There is no procedure ''"),
    ],
)
def test_what_no_procedure_has_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(").replace(".", r"\.")):
        read_procedure(text)
