"""The search for memory capacity, on thresholds that are known and on a line, of which Cover's theorem knows."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from modelkeep import Data, Model
from modelkeep.papers.saha2020.plasticity.memory import CLOSE, HELD, best_accuracy, find_capacity, memorise
from modelkeep.training import Recipe, cross_entropy, evaluate, fit
from modelkeep.zoo.architectures import dense


@given(threshold=st.integers(0, 5000), start=st.integers(1, 300))
def test_the_search_encloses_the_threshold_closely(threshold: int, start: int) -> None:
    held, failed = find_capacity(lambda n: n <= threshold, start)
    assert held <= threshold < failed
    assert failed <= max(CLOSE * held, held + 1)


FEATURES = 4


def labelled(n: int) -> Data:
    drawn = torch.Generator().manual_seed(n)
    x = torch.randn(n, FEATURES, generator=drawn)
    return Data(x, torch.randint(2, (n,), generator=drawn), ("0", "1"))


def separable(data: Data) -> bool:
    """Whether any line tells the classes apart, by linear programming."""
    signed = (2 * data.y - 1).numpy()[:, None] * np.column_stack([data.x.numpy(), np.ones(len(data))])
    return bool(linprog(np.zeros(FEATURES + 1), -signed, -np.ones(len(data)), bounds=(None, None)).status == 0)


def test_a_line_holds_about_twice_its_parameters_as_cover_says() -> None:
    def holds(n: int) -> bool:
        data = labelled(n)
        torch.manual_seed(0)
        model = Model(dense((FEATURES,), 2, []), input_shape=(FEATURES,), classes=2, bounds=None)
        fit(model, data, cross_entropy, Recipe(steps=250, batch_size=64, learning_rate=0.1), seed=0)
        learned = bool(evaluate(model, data)[1].value == 1)
        assert separable(data) or not learned
        return learned

    held, _ = find_capacity(holds, start=8)
    # With d + 1 = 5 parameters, 5 random labels can always be held, and 10 in half of all draws.
    assert FEATURES + 1 <= held <= 4 * (FEATURES + 1)


def test_a_small_network_holds_few_labels_and_not_many() -> None:
    drawn = torch.Generator().manual_seed(0)
    x, y = torch.randn(1500, 1, 6, 6, generator=drawn), torch.randint(2, (1500,), generator=drawn)
    data = Data(x, y, ("0", "1"))
    few, many = (best_accuracy(data.first(n), 0, 1, 2, "none", hidden=4, steps=300) for n in (8, 1500))
    assert few == 1.0
    assert 0.5 <= many < 0.9


def test_a_trial_gives_the_probes_that_its_answer_rests_on() -> None:
    found = memorise(seed=0, depth=1, width=2, regularisation="weight decay", side=4, hidden=2, steps=100)
    for n, accuracy in found["probes"]:
        assert (n <= found["held"]) == (accuracy >= HELD)
    assert found["held"] < found["failed"]
