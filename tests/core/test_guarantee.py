"""A guarantee is in range, reads as a sentence, and changes no fingerprint where there is none."""

from __future__ import annotations

import pytest

from modelkeep.core.card import Card
from modelkeep.core.errors import InputError
from modelkeep.core.guarantee import Guarantee


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (float("inf"), 0.1), (1.0, 1.0), (1.0, -0.1)])
def test_what_guarantees_nothing_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InputError, match="needs an ε above 0"):
        Guarantee(epsilon, delta, "dp-sgd")


def test_it_is_told_with_the_card_only_where_there_is_one() -> None:
    assert "guarantee" not in Card((2,), ("a", "b")).told()
    told = Card((2,), ("a", "b"), guarantee=Guarantee(4.0, 1e-5, "dp-sgd")).told()
    assert told["guarantee"] == {"epsilon": 4.0, "delta": 1e-5, "method": "dp-sgd"}
    assert str(Guarantee(4.0, 1e-5, "dp-sgd")) == "ε = 4 at δ = 1e-05, by dp-sgd"
