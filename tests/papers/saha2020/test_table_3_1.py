"""Table 3.1: what is measured is what it says, and ours stand beside the thesis' and Martic2018's."""

from __future__ import annotations

import pytest

from modelkeep.papers.saha2020 import encrypted_training_costs, table_3_1
from modelkeep.papers.saha2020.encrypted_costs import PRODUCTS, WARMING, shares_inference, take_turns
from modelkeep.papers.saha2020.table_3_1 import _cells, _claims, trials


def test_shares_of_the_digits_are_measured_beside_plain() -> None:
    cost = shares_inference(seed=0, repeats=2, samples=20)
    assert cost["bytes"] == 48 * (64 + 4 * 32) + 16 * 10 + 8 * (32 + 64 + 32 + 64 + 10)
    assert cost["error"] < 1e-3
    assert (len(cost["seconds"]), len(cost["plain"]), cost["right"][1]) == (2, 2, 20)


def test_plain_training_counts_steps() -> None:
    assert len(encrypted_training_costs.plain_training(seed=0, repeats=2, steps=3)["seconds"]) == 6


def test_ratios_stand_beside_the_papers() -> None:
    way = "inference: shares, three parties and a dealer"
    cost = {"seconds": [3.0, 1.0, 2.0], "plain": [0.1, 0.1, 0.2], "bytes": 16.0 * PRODUCTS, "right": [9, 10]}
    cells = {cell.column: cell for cell in _cells(way, cost, 0)}
    ratio, each = cells[table_3_1.TIMES_PLAIN], cells[table_3_1.PER_PRODUCT]
    assert ratio.ours is not None
    assert (ratio.ours.value, ratio.paper) == (20.0, 24)
    assert each.ours is not None
    assert each.ours.value == pytest.approx(16.0)
    assert each.paper == 16
    (claim,) = [claim for claim in _claims({way: cost}) if "24 times" in claim.says]
    assert claim.holds is False


def test_what_was_not_measured_says_why() -> None:
    (cell,) = _cells("inference: TFHE, integers", {"missing": "No environment."}, 0)
    assert cell.ours is None
    assert cell.note == "not measured: No environment"


def test_every_way_is_a_trial() -> None:
    for size in ("small", "paper"):
        assert [each.parameters["way"] for each in trials(size, 0)] == [*table_3_1.INFERENCE, *table_3_1.TRAINING]


def test_turns_are_taken() -> None:
    order: list[str] = []
    take_turns(lambda: order.append("ours"), lambda: order.append("plain"), 2)
    assert order == 2 * ["ours", *(1 + WARMING) * ["plain"]]
