"""The order of the examples: every one once per epoch, and any step without the steps before it."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.training import Recipe
from modelkeep.training.batches import Batches, derive_seed, part_seed

sizes = st.integers(1, 50)


@given(n=sizes, size=sizes, seed=st.integers(0, 2**40), replays=st.integers(1, 3))
def test_an_epoch_holds_every_example_once(n: int, size: int, seed: int, replays: int) -> None:
    batches = Batches(n, Recipe(epochs=2, batch_size=size, replays=replays), seed)
    for epoch in range(2):
        steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        shown = torch.cat([batches.index(step) for step in steps])
        assert shown.bincount(minlength=n).tolist() == [replays] * n


@given(n=sizes, size=sizes, sampling=st.sampled_from(["shuffle", "poisson"]), step=st.integers(0, 99))
def test_a_step_does_not_depend_on_the_steps_before(n: int, size: int, sampling: str, step: int) -> None:
    recipe = Recipe.from_json({"epochs": 1, "batch_size": size, "sampling": sampling})
    walked, jumped = Batches(n, recipe, 3), Batches(n, recipe, 3)
    for before in range(step):
        walked.index(before)
    assert torch.equal(walked.index(step), jumped.index(step))


def test_epochs_and_seeds_shuffle_differently() -> None:
    batches, other = (
        Batches(100, Recipe(epochs=1, batch_size=100), 0),
        Batches(100, Recipe(epochs=1, batch_size=100), 1),
    )
    assert not torch.equal(batches.index(0), batches.index(1))
    assert not torch.equal(batches.index(0), other.index(0))


def test_poisson_sampling_takes_each_example_independently() -> None:
    batches = Batches(200, Recipe(epochs=1, batch_size=50, sampling="poisson"), 0)
    drawn = [batches.index(step) for step in range(400)]
    lengths = torch.tensor([float(len(index)) for index in drawn])
    counts = torch.cat(drawn).bincount(minlength=200).double()
    # Binomial(200, 1/4): mean 50, variance 37.5; and Binomial(400, 1/4) for each example: mean 100, variance 75.
    assert abs(lengths.mean() - 50) < 5 * (37.5 / 400) ** 0.5
    assert 25 < lengths.var() < 55
    assert abs(counts - 100).max() < 5 * 75**0.5


def test_seeds_differ_by_purpose_and_counter() -> None:
    seeds = {derive_seed(s, p, c) for s in range(5) for p in ("order", "modules") for c in range(100)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_every_micro_batch_of_every_step_draws_numbers_of_its_own() -> None:
    """The CPU's generator takes the low 32 bits of a seed: parts that differ above them draw the same dropout."""
    seed = derive_seed(0, "modules", 0)
    drawn = {
        tuple(torch.rand(4, generator=torch.Generator().manual_seed(part_seed(seed, step, part))).tolist())
        for step in range(20)
        for part in range(8)
    }
    assert len(drawn) == 160
    assert [part_seed(seed, step, 0) for step in range(3)] == [seed, seed + 1, seed + 2]  # what a whole batch draws
