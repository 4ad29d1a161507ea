"""Modulation finds what is hard or easy at equal accuracy, judges it by seeds it has not seen, and can be killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from modelkeep.completion.modulation import Configuration, Measurement, Modulation, modulate
from modelkeep.completion.searchable_network import searchable_network
from modelkeep.core.errors import InputError, StudyError
from modelkeep.papers.martic2018.modulation import BASELINE as STUDIED
from modelkeep.papers.martic2018.modulation import MODULATION, Scale, measure
from modelkeep.papers.martic2018.modulation import SPACE as STUDY_SPACE
from records import made

SPACE: dict[str, list[Any]] = {"depth": [0, 1, 2, 3], "skips": [True, False], "width": [8, 16, 32]}
BASELINE = {"depth": 1, "skips": False, "width": 16}


def known(settings: Configuration, seed: int) -> Measurement:
    """A hardness that rises with depth and without skips; depth 3 is the hardest, and too inaccurate."""
    hardness = 0.2 + 0.2 * settings["depth"] - 0.15 * settings["skips"] + 0.01 * (seed % 2)
    return Measurement({"T1": max(hardness, 0.0), "T2": 1.0}, 0.9 - 0.1 * (settings["depth"] == 3))


def searched(measure: Any = known, **changed: Any) -> Modulation:
    given: dict[str, Any] = {
        "baseline": BASELINE,
        "direction": "harder",
        "trials": 25,
        "finalists": 3,
        "tolerance": 0.01,
        "search_seeds": [0, 1],
        "final_seeds": [2, 3],
        "held_out_seeds": [10, 11, 12, 13],
        "seed": 0,
    }
    return modulate(SPACE, measure, **{**given, **changed})


def test_finds_the_hardest_of_those_that_are_accurate() -> None:
    found = searched()
    assert (found.found.settings["depth"], found.found.settings["skips"]) == (2, False)
    assert found.found.hardness.value == pytest.approx(0.605)
    assert found.difference.value == pytest.approx(0.2)
    assert found.baseline.strongest == "T1"
    assert found.holds is True
    assert Modulation.from_json(found.to_json()).found == found.found


def test_finds_the_easiest() -> None:
    found = searched(direction="easier")
    assert (found.found.settings["depth"], found.found.settings["skips"]) == (0, True)
    assert found.holds is True


def test_the_first_trial_is_the_baseline() -> None:
    assert searched(trials=1).searched == ((BASELINE, 0.405, 0.9),)


def test_luck_on_the_searched_seeds_does_not_hold() -> None:
    """Where the hardness is noise of the seed and the settings alike, held-out seeds show no difference."""

    def noise(settings: Configuration, seed: int) -> Measurement:
        drawn = torch.rand((), generator=torch.Generator().manual_seed(hash((seed, *settings.values())) % 2**31))
        return Measurement({"T1": drawn.item()}, 0.9)

    found = searched(noise, held_out_seeds=list(range(10, 40)))
    best = max(hardness for _, hardness, _ in found.searched)
    assert best > found.searched[0][1] + 0.1
    assert found.holds is None


def test_the_luckiest_of_the_search_loses_to_the_best_on_more_seeds() -> None:
    """The search sees noise that is larger than what the depth does; forty more seeds see through it."""

    def noisy(settings: Configuration, seed: int) -> Measurement:
        drawn = torch.rand((), generator=torch.Generator().manual_seed(hash((seed, *settings.values())) % 2**31))
        return Measurement({"T1": 0.1 * settings["depth"] + 0.6 * drawn.item()}, 0.9)

    found = searched(noisy, search_seeds=[2], finalists=12, final_seeds=list(range(100, 140)))
    luckiest = max(found.searched, key=lambda one: one[1])
    assert luckiest[0]["depth"] < 3
    assert found.found.settings["depth"] == 3
    assert found.found.settings == found.finalists[0][0]
    values = [hardness for _, hardness, _ in found.finalists]
    assert values == sorted(values, reverse=True)
    assert len({str(settings) for settings, _, _ in found.finalists}) == 12, "each runs once"


def test_what_is_less_accurate_on_held_out_seeds_does_not_hold() -> None:
    def later_worse(settings: Configuration, seed: int) -> Measurement:
        worse = 0.2 * (seed >= 10 and settings["depth"] == 2)
        return Measurement({"T1": 0.1 + 0.2 * settings["depth"]}, 0.9 - worse - 0.5 * (settings["depth"] == 3))

    assert searched(later_worse).holds is False


def test_a_killed_search_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    asked: list[tuple[Configuration, int]] = []

    def dying(settings: Configuration, seed: int) -> Measurement:
        asked.append((settings, seed))
        if len(asked) in (1, 9, 10, 30):
            raise Killed
        return known(settings, seed)

    storage = tmp_path / "search.journal"
    for _ in range(4):
        with pytest.raises(Killed):
            searched(dying, trials=12, storage=storage)
    resumed = searched(dying, trials=12, storage=storage)
    whole = searched(trials=12)
    assert resumed.searched == whole.searched
    assert resumed.difference == whole.difference
    count = len(asked)
    searched(dying, trials=12, storage=storage)
    assert len(asked) == count, "nothing is measured twice"
    with pytest.raises(StudyError, match="other settings"):
        searched(trials=12, storage=str(storage), search_seeds=[0, 2])


@pytest.mark.parametrize(
    "changed",
    [
        {"direction": "faster"},
        {"trials": 0},
        {"finalists": 0},
        {"final_seeds": [10]},
        {"baseline": {**BASELINE, "depth": 9}},
        {"baseline": {"depth": 1}},
        {"held_out_seeds": [1, 2]},
    ],
    ids=["direction", "trials", "finalists", "final seeds", "value", "setting", "seeds"],
)
def test_bad_parameters_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        searched(**changed)


@pytest.mark.parametrize("normalisation", ["none", "batch", "group"])
@pytest.mark.parametrize("skips", [True, False])
def test_searchable_networks_take_images_and_give_logits(normalisation: Any, skips: bool) -> None:
    network = searchable_network(
        (1, 12, 12), 5, width=4, before=2, after=2, hidden=0, stride=1, normalisation=normalisation, skips=skips
    )
    assert network(torch.rand(3, 1, 12, 12)).shape == (3, 5)
    changed = network.get_submodule("lower")(torch.rand(3, 1, 12, 12))
    assert network.get_submodule("upper")(changed).shape == (3, 5)


def test_searchable_refuses_what_is_no_network() -> None:
    with pytest.raises(InputError, match="odd"):
        searchable_network((1, 8, 8), 10, kernel=4)
    with pytest.raises(InputError, match="'none', 'batch' or 'group'"):
        searchable_network((1, 8, 8), 10, normalisation="layer")  # type: ignore[arg-type]


DIGITS = Scale(400, 200, 40, 10, trials=1, search_seeds=1, finalists=1, final_seeds=1, held_out_seeds=1, data="digits")


def test_a_measurement_trains_a_network_and_completes_it() -> None:
    settings = {**STUDIED, "stride": 2, "rate": 4.0}
    found = measure(settings, 0, DIGITS)
    assert found == measure(settings, 0, DIGITS)
    assert found.ratios.keys() == {"T1", "T2"}
    assert all(0 <= value <= 1 for value in found.ratios.values())
    assert 0.3 < found.accuracy < 1


def test_what_does_not_learn_is_no_model_of_equal_accuracy() -> None:
    hopeless = {**STUDIED, "optimizer": "sgd", "rate": 1e12}
    assert measure(hopeless, 0, DIGITS) == Measurement({"T1": 1.0, "T2": 1.0}, 0.0)


def test_the_study_reports_what_was_found_and_what_is_missing() -> None:
    trials = MODULATION.study("small", 0).trials
    assert [trial.parameters["direction"] for trial in trials] == ["harder", "easier"]
    assert all(STUDIED[name] in values for name, values in STUDY_SPACE.items())
    harder = json.loads(searched().to_json())
    told = MODULATION.report(made(trials, lambda trial: harder if trial.parameters["direction"] == "harder" else None))
    assert [claim.holds for claim in told.claims] == [True, None]
    assert "depth=2" in told.claims[0].found
    assert "missing" in str(told)
