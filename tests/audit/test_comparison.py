"""New, worse, better and gone: by exact tests on the same examples, corrected, and never green for what is unknown."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.audits import make_audit, make_finding
from modelkeep import Estimate, Result
from modelkeep.audit.comparison import Comparison, compare, mcnemar
from modelkeep.audit.findings import Finding
from modelkeep.report.measure import Measure


def _one(before: Finding, now: Finding) -> tuple[str, str]:
    (row,) = compare(make_audit(before), make_audit(now)).findings
    return row.change, row.why


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_mcnemar_by_counting_coin_tosses(pairs: list[tuple[bool, bool]]) -> None:
    found = mcnemar("".join("01"[a] for a, _ in pairs), "".join("01"[b] for _, b in pairs))
    lost, won = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    n, fewer = lost + won, min(lost, won)
    expected = min(1.0, 2 * sum(comb(n, k) for k in range(fewer + 1)) / 2**n)
    assert found.p_value == pytest.approx(expected)
    assert (found.lost, found.won, found.n) == (lost, won, len(pairs))
    assert found.gain == pytest.approx((won - lost) / len(pairs))


def test_the_same_share_on_the_same_examples_is_paired() -> None:
    """80 % became 70 %: two samples of 100 would not tell, but no example was won."""
    before, now = "1" * 80 + "0" * 20, "1" * 70 + "0" * 30
    change, why = _one(make_finding("robustness.a", "medium", before), make_finding("robustness.a", "medium", now))
    assert change == "worse"
    assert "10 examples lost, 0 won" in why
    assert "McNemar" in why
    other = make_finding("robustness.a", "medium", now, examples="others")
    change, why = _one(make_finding("robustness.a", "medium", before), other)
    assert change == "same"
    assert "not the same examples" in why


def test_other_examples_with_a_large_difference() -> None:
    before = make_finding("robustness.a", "high", "0" * 90 + "1" * 10)
    now = make_finding("robustness.a", "high", "1" * 90 + "0" * 10, examples="others")
    assert _one(before, now)[0] == "better"
    assert _one(now, before)[0] == "worse"


def test_a_value_without_outcomes_has_no_direction() -> None:
    def leak(successes: int) -> Finding:
        return make_finding("membership.leaks", "high", value=Measure("found", Estimate.rate(successes, 200)))

    assert _one(leak(20), leak(180))[0] == "changed"
    assert _one(leak(100), leak(101))[0] == "same"


def test_new_and_gone_say_whether_it_can_be_chance() -> None:
    good = make_finding("robustness.stands", "good", "1" * 95 + "0" * 5)
    bad = make_finding("robustness.examples", "high", "1" * 40 + "0" * 60)
    near = make_finding("robustness.examples", "medium", "1" * 93 + "0" * 7)
    assert _one(good, bad)[0] == "new"
    assert "chance" not in _one(good, bad)[1]
    assert _one(bad, good)[0] == "gone"
    change, why = _one(good, near)
    assert change == "new"
    assert "can be chance" in why
    (row,) = compare(make_audit(bad), make_audit(good)).findings
    assert row.id == "robustness.examples", "paired by what was measured, and named for what failed"


def test_what_is_not_known_now_is_not_gone() -> None:
    failed = make_finding("robustness.examples", "high")
    skipped = make_finding("robustness.not-run", "unclear", skipped=True)
    assert {row.change for row in compare(make_audit(failed), make_audit(skipped)).findings} == {"unclear", "same"}
    assert {row.change for row in compare(make_audit(failed), make_audit()).findings} == {"unclear"}
    passed = make_finding("robustness.stands", "good")
    gone = compare(make_audit(failed), make_audit(passed)).of("gone")
    assert [row.id for row in gone] == ["robustness.examples"]
    unclear = replace(failed, severity="unclear")
    assert _one(failed, unclear)[0] == "unclear"
    assert _one(unclear, failed) == ("new", "The baseline could not say. There is nothing to test it by.")


def test_severity_decides_only_where_nothing_can_be_tested() -> None:
    assert _one(make_finding("bias.a", "medium"), make_finding("bias.a", "high"))[0] == "worse"
    assert _one(make_finding("bias.a", "medium"), make_finding("bias.a", "low"))[0] == "better"
    same = "1" * 50 + "0" * 50
    assert _one(make_finding("bias.a", "low", same), make_finding("bias.a", "high", same))[0] == "unclear"


def test_holm_corrects_over_the_findings() -> None:
    """p = 2/2^7 = 0.016: alone it is supported, among ten it is not."""
    before, now = "1" * 20, "1" * 13 + "0" * 7
    alone = compare(
        make_audit(make_finding("accuracy.a", "good", before)), make_audit(make_finding("accuracy.a", "good", now))
    )
    assert [row.change for row in alone.findings] == ["worse"]
    others = [make_finding(f"bias.{i}", "good", before) for i in range(9)]
    among = compare(
        make_audit(make_finding("accuracy.a", "good", before), *others),
        make_audit(make_finding("accuracy.a", "good", now), *others),
    )
    tests = {row.id: row.test for row in among.findings}
    tested = tests["accuracy.a"]
    assert tested is not None
    assert (tested.p_value, tested.adjusted) == (0.015625, 0.15625)
    assert {row.change for row in among.findings} == {"same"}


def test_an_audit_against_itself_changes_nothing_and_is_stored() -> None:
    audit = make_audit(make_finding("accuracy.a", "good", "1" * 30), make_finding("bias.b", "high"))
    found = compare(audit, audit)
    assert {row.change for row in found.findings} == {"same"}
    assert found.verdict == "Against the baseline: no change that the tests support."
    assert found.notes == ("The model is the same as in the baseline.",)
    back = Result.from_json(found.to_json())
    assert isinstance(back, Comparison)
    assert back.findings == found.findings
    assert "accuracy.a" in str(found)


def test_what_else_differs_is_said() -> None:
    first = make_audit()
    second = make_audit(provenance=replace(first.provenance, model="n", data="o", seed=1, version="1.1"))
    notes = " ".join(compare(first, second).notes)
    for word in ("Other data", "Another seed", "Another version"):
        assert word in notes
