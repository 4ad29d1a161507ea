"""Records are found by row and by hash, and no other record has that hash."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from modelkeep import Data, ModelKeepError
from modelkeep.privacy.records import find_records, record_hashes
from privacy.little_world import gaussian_records

DATA = gaussian_records(30, seed=0)


def test_a_hash_depends_on_the_record_alone() -> None:
    hashes = record_hashes(DATA)
    assert len(set(hashes)) == 30
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    assert record_hashes(DATA.take(order)) == [hashes[i] for i in order.tolist()]
    other = replace(DATA, y=1 - DATA.y)
    assert not set(record_hashes(other)) & set(hashes)


def test_records_are_found_by_row_and_by_hash() -> None:
    hashes = record_hashes(DATA)
    assert find_records(DATA, ["3", hashes[7][:12], hashes[7].upper(), " 0 "]).tolist() == [3, 7, 0]


def test_a_record_that_occurs_twice_is_found_twice() -> None:
    twice = Data(torch.ones(2, 1), torch.zeros(2, dtype=torch.int64), ("a", "b"))
    assert find_records(twice, [record_hashes(twice)[0][:8]]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("names", "message"),
    [(["30"], "rows 0 to 29"), (["abcdef0123"], "names no record"), (["ab"], "names no record"), ([], "No record")],
)
def test_what_names_no_record_is_refused(names: list[str], message: str) -> None:
    with pytest.raises(ModelKeepError, match=message):
        find_records(DATA, names)
