"""The lookup finds what a look at every pair of answer and entry finds."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.extract.lookup import Lookup


def predictions(rng: np.random.Generator, count: int, classes: int, coarse: bool) -> torch.Tensor:
    """Few different ones, as a quantiser gives them, or all different."""
    if coarse:
        return torch.from_numpy(rng.multinomial(4, np.full(classes, 1 / classes), count) / 4).float()
    return torch.from_numpy(rng.dirichlet(np.full(classes, 0.7), count)).float()


@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(2, 5),
    coarse=st.booleans(),
    tolerance=st.sampled_from([0.0, 0.02, 0.3]),
    parts=st.integers(1, 3),
)
def test_it_agrees_with_brute_force(seed: int, classes: int, coarse: bool, tolerance: float, parts: int) -> None:
    rng = np.random.default_rng(seed)
    answers, perturbed = predictions(rng, 20, classes, coarse), predictions(rng, 60, classes, coarse)
    clean = predictions(rng, 60, classes, False)
    lookup = Lookup(answers, tolerance)
    for index in torch.arange(60).tensor_split(parts):
        lookup.add(clean[index], perturbed[index])
    found = lookup.recover()
    for i, answer in enumerate(answers):
        same_label = perturbed.argmax(dim=1) == answer.argmax()
        distance = (perturbed - answer).double().norm(dim=1).masked_fill(~same_label, torch.inf)
        if ((distance - tolerance).abs() < 1e-6).any() and tolerance > 0:
            continue  # on the edge the grid's rounding decides
        match = distance <= tolerance + 1e-7
        assert bool(lookup.matched[i]) == bool(match.any())
        if match.any():
            torch.testing.assert_close(found[i], clean[match].mean(dim=0))
        elif same_label.any():
            nearest = distance <= distance.min() + 1e-7
            torch.testing.assert_close(found[i], clean[nearest].mean(dim=0))
        else:
            torch.testing.assert_close(found[i], answer)


def test_nothing_is_recovered_from_an_empty_table() -> None:
    answers = torch.tensor([[0.25, 0.75]])
    assert torch.equal(Lookup(answers, 0.1).recover(), answers)
