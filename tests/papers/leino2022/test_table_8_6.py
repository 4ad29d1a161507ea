"""A tiny version of table 8.6: the omniscient attack comes first, and the table says what theory expects."""

from __future__ import annotations

from dataclasses import replace

from modelkeep.papers.leino2022 import table_8_6
from modelkeep.study import Trial
from papers.leino2022.performing import performed


def test_the_table_has_theory_and_the_thesis_beside_ours() -> None:
    done = performed([Trial.of(table_8_6.attack, {"n": 100, "epochs": 10, "shadows": 2}, 0)])
    (first,) = done.records
    assert table_8_6.report(done).claims == ()  # two sizes are missing
    # As if the larger sets had given the same.
    records = [replace(first, parameters={**first.parameters, "n": n}) for n in (100, 200, 400)]
    result = table_8_6.report(replace(done, records=tuple(records)))
    cells = {(c.row, c.column): c for c in result.cells}
    omniscient, naive = cells["n = 100", "omniscient"], cells["n = 100", "naive"]
    assert omniscient.paper == 0.618
    assert omniscient.ours is not None
    assert naive.ours is not None
    assert omniscient.ours.value > 0.8 > naive.ours.value
    assert "theory, Φ(½√(75/10))" in str(result)
    assert [claim.holds for claim in result.claims][1:] == [None, None, None]
    assert "bayesian-wb keeps 84% of the advantage of omniscient" in str(result.claims[1])


def test_a_study_has_twenty_repetitions_of_each_size() -> None:
    trials = table_8_6.trials("small", 3)
    assert len(trials) == 60
    assert len({t.identity for t in trials}) == 60
