"""MC-hardness over seeds and procedures: appendix C's statistics, the infimum, and T' = T."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.completion.curve import Curve
from modelkeep.completion.hardness import Hardness, Retraining, measure_hardness
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate, Result
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets

ORIGINAL = Curve(tuple(range(0, 101, 10)), tuple(1 - step / 100 for step in range(0, 101, 10)))


def _reached(step: int) -> Curve:
    """A retraining whose loss falls from 1 to 0 at `step`."""
    return Curve((0, step), (1.0, 0.0))


def _retraining(step: int, seed: int, part: str = "conv1", procedure: str = "T1", setting: str = "") -> Retraining:
    return Retraining(part, procedure, seed, ORIGINAL, _reached(step), 0.5, setting, 2.0)


def test_the_statistics_of_appendix_c_are_numpys() -> None:
    steps = [30, 70, 40, 90, 55]
    found = measure_hardness([_retraining(step, seed) for seed, step in enumerate(steps)], alphas=[1.0])
    cell, values = found.cell("conv1", "T1", 1.0), np.array(steps) / 100
    assert cell.values == pytest.approx(values)
    assert cell.median == pytest.approx(np.median(values))
    assert cell.mean.value == pytest.approx(values.mean())
    assert cell.sd == pytest.approx(values.std(ddof=1))
    assert cell.statistics == ("0.55", "0.57", "0.24", "0.30", "0.90")
    assert cell.mean == Estimate.bootstrap(values, 0)
    assert (cell.cost, cell.original_cost) == pytest.approx((57.0, 100.0))
    assert (cell.seconds, cell.original_seconds) == pytest.approx((57.0 * 0.5, 200.0))


def test_runs_that_never_got_there_count_as_one_and_are_counted() -> None:
    never = Retraining("conv1", "T1", 1, ORIGINAL, Curve((0, 50), (1.0, 0.5)))
    found = measure_hardness([_retraining(20, 0), never])
    assert [found.cell("conv1", "T1", alpha).censored for alpha in (0.5, 0.8, 1.0)] == [0, 1, 1]
    cell = found.cell("conv1", "T1", 1.0)
    assert (cell.values, cell.runs, cell.cost) == ((0.2, 1.0), 2, 60.0)
    assert cell.seconds == 60.0 * 0.5  # by the run that was timed
    assert measure_hardness([never]).cell("conv1", "T1", 1.0).seconds is None


def test_the_bound_is_the_least_mean_and_names_the_strongest_procedure() -> None:
    runs = [_retraining(step, seed, procedure="T1") for seed, step in enumerate([40, 60])]
    runs += [_retraining(step, seed, procedure="T2") for seed, step in enumerate([30, 50])]
    bound = measure_hardness(runs).bound("conv1", 1.0)
    assert (bound.procedure, bound.hardness.value, bound.cost) == ("T2", 0.4, 40.0)


def test_where_nothing_is_faster_the_original_training_is_the_strongest() -> None:
    bound = measure_hardness([_retraining(step, seed) for seed, step in enumerate([100, 150])]).bound("conv1", 1.0)
    assert (bound.procedure, bound.hardness.value) == ("T", 1.0)
    assert (bound.cost, bound.seconds) == (bound.original_cost, bound.original_seconds) == (100.0, 200.0)


def test_a_seed_is_averaged_over_its_settings() -> None:
    runs = [
        _retraining(10 * (seed + 1) * (game + 1), seed, setting=f"game {game}") for seed in (0, 1) for game in (0, 1)
    ]
    cell = measure_hardness(runs, alphas=[1.0]).cell("conv1", "T1", 1.0)
    assert cell.values == pytest.approx(((0.1 + 0.2) / 2, (0.2 + 0.4) / 2))
    assert (cell.mean.n, cell.runs) == (2, 4)


def test_one_seed_has_no_spread() -> None:
    cell = measure_hardness([_retraining(50, 0)]).cell("conv1", "T1", 1.0)
    assert cell.sd is None
    assert cell.statistics[2] == "–"


def test_it_is_read_back_as_it_was_stored() -> None:
    found = measure_hardness([_retraining(50, 0), _retraining(20, 0, part="logits")])
    again = Result.from_json(found.to_json())
    assert isinstance(again, Hardness)
    assert again.cells == found.cells
    assert again.parts == ("conv1", "logits")


def test_the_table_has_a_line_per_cell_and_a_star_at_the_strongest() -> None:
    found = measure_hardness(
        [_retraining(50, 0), _retraining(20, 0, procedure="T2"), _retraining(90, 0, part="logits")]
    )
    lines = [line for line in str(found).splitlines() if "T1" in line or "T2" in line]
    assert len(lines) == 3 * 4
    assert sum("T2 ★" in line for line in lines) == 4
    assert dict(found.rows())["conv1"].endswith("0.20 by T2 at α = 1")


def test_the_bars_are_as_high_as_the_means() -> None:
    runs = [_retraining(step, seed) for seed, step in enumerate([40, 60])]
    found = measure_hardness(
        [*runs, _retraining(90, 0, part="logits"), _retraining(30, 0, procedure="T2")], alphas=[0.5, 1.0]
    )
    first, second = found.draw().axes[:2]
    assert [first.get_title(loc="left"), second.get_title(loc="left")] == ["T1", "T2"]
    heights = [bar.get_height() for bar in first.patches]  # type: ignore[attr-defined]
    assert heights == pytest.approx([cell.mean.value for cell in found.cells if cell.procedure == "T1"])


def test_the_procedures_of_one_part_stand_side_by_side() -> None:
    panel, *others = (
        measure_hardness([_retraining(40, 0), _retraining(20, 0, procedure="T2")], alphas=[1.0]).draw().axes
    )
    assert not others
    assert [label.get_text() for label in panel.get_xticklabels()] == ["T1", "T2"]
    assert [bar.get_height() for bar in panel.patches] == [0.4, 0.2]  # type: ignore[attr-defined]


def test_errors_say_what_is_known() -> None:
    found = measure_hardness([_retraining(50, 0)])
    with pytest.raises(InputError, match="Parts: conv1"):
        found.bound("conv7", 1.0)
    with pytest.raises(InputError, match="only by T1"):
        found.cell("conv1", "T2", 1.0)
    with pytest.raises(InputError, match="retrained twice"):
        measure_hardness([_retraining(50, 0), _retraining(60, 0)])
    with pytest.raises(InputError, match="different settings"):
        measure_hardness([_retraining(50, 0, setting="pong"), _retraining(60, 1, setting="breakout")])
    with pytest.raises(InputError, match="at least one retraining"):
        measure_hardness([])


def _decays(rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[Curve]:
    """Runs whose loss decays from 1 to (nearly) 0 with random rates, so that ℓ*_α is the same for all of them."""
    steps = np.arange(0, 4001, 2)
    return [Curve(tuple(steps.tolist()), tuple(np.exp(-rate * steps).tolist())) for rate in rates]


def _mean_difference(originals: list[Curve], others: list[Curve], loss: float) -> Estimate:
    """E[C'(ℓ) − C(ℓ)] over pairs of runs, all of which reach the loss."""
    pairs = [(a.cost(loss), b.cost(loss)) for a, b in zip(originals, others, strict=True)]
    differences = [float(again - cost) for cost, again in pairs if cost is not None and again is not None]
    assert len(differences) == len(originals)
    return Estimate.bootstrap(differences, seed=0)


def test_the_same_training_again_costs_the_same_in_expectation() -> None:
    # Section 3.2: for T' = T, C' equals C in expectation. The mean of the *ratio* of two independent costs is
    # E[C]·E[1/C] ≥ 1 (Jensen), and the measure's least of it and 1 is below 1; the definition speaks of the costs.
    random, alpha = np.random.default_rng(0), 0.9
    originals, others = _decays(random.uniform(0.01, 0.03, 150)), _decays(random.uniform(0.01, 0.03, 150))
    loss = originals[0].threshold(alpha)
    difference = _mean_difference(originals, others, loss)
    assert not difference.excludes(0)
    assert difference.high - difference.low < 0.2 * np.log(10) / 0.02  # narrow, so that it says something
    faster = _decays(random.uniform(0.013, 0.039, 150))
    assert _mean_difference(originals, faster, loss).excludes(0)
    found = measure_hardness(
        [Retraining("all", "T", i, a, b) for i, (a, b) in enumerate(zip(originals, others, strict=True))],
        alphas=[alpha],
    )
    assert found.cell("all", "T", alpha).mean.high < 1
    assert found.bound("all", alpha).cost < found.bound("all", alpha).original_cost


def test_a_real_training_again_costs_the_same_in_expectation() -> None:
    digits = datasets.load("digits", "train").first(500)
    train, held_out = digits.split(0.7, 0.3, seed=0)
    recipe = Recipe(steps=48, batch_size=32, learning_rate=0.01, evaluate_every=4)
    originals = [_trained(train, held_out, recipe, seed) for seed in range(10)]
    others = [_trained(train, held_out, recipe, 100 + seed) for seed in range(10)]
    loss = max(curve.threshold(0.8) for curve in originals)
    difference = _mean_difference(originals, others, loss)
    assert not difference.excludes(0)
    assert difference.high - difference.low < np.mean([curve.cost(loss) or 0 for curve in originals])


def _trained(train: Data, held_out: Data, recipe: Recipe, seed: int) -> Curve:
    """The held-out error rate of a tiny network over its training."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    model = Model(module, input_shape=train.input_shape, classes=train.classes)
    start = 1 - (model.predict(held_out.x) == held_out.y).double().mean().item()
    history = fit(model, train, cross_entropy, recipe, held_out=held_out, seed=seed).history
    losses = [1 - each.accuracy.value for each in history if each.accuracy is not None]
    return Curve((0, *(each.step for each in history)), (start, *losses))
