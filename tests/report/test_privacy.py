"""The page of privacy names the strongest attack, the exposed records and what to do, and claims no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, ModelKeepError, Result
from modelkeep.core.results import Estimate, measured
from modelkeep.privacy import Knowledge, Loss, Membership, Naive
from modelkeep.report import PrivacyReport, measure_privacy, privacy_page
from modelkeep.report.exposure import Exposure
from modelkeep.training import Recipe, cross_entropy, fit
from privacy.little_world import RECIPE, gaussian_records, network


def measure() -> tuple[PrivacyReport, Data]:
    members, others, held = (gaussian_records(60, seed) for seed in range(3))
    model = network()
    fit(model, members, cross_entropy, RECIPE, seed=0)
    recipe = replace(RECIPE, epochs=5)
    return measure_privacy(model, members, others, Knowledge(held, recipe), [Naive(), Loss()], records=[7]), members


def test_the_report_says_who_is_exposed_and_why() -> None:
    found, members = measure()
    assert found.strongest.attack == "loss"
    assert found.verdict.startswith("It gives members away: by loss, the strongest of 2")
    assert len(found.exposed) == 8
    scores = [e.score for e in found.exposed]
    assert scores == sorted(found.strongest.members.tolist(), reverse=True)[:8]
    assert [e.row for e in found.asked] == [7]
    for each in found.exposed:
        certainty, place, *features = each.why
        assert certainty.startswith("its class has ")
        assert place.startswith(("most at 'input' (+", "most at '1' (+"))
        assert all(text.split(" = ")[0] in (members.features or ()) for text in features)
    assert found.strongest.auc.level == pytest.approx(1 - 0.05 / (2 * 5))
    assert found.asked[0].accused_wrongly.level == pytest.approx(1 - 0.05 / 2)
    again = Result.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    html = privacy_page(found, members).render()
    for words in (
        "OWASP ML04:2023",
        "inconclusive",
        found.exposed[0].hash,
        "The record in question",
        "train-privately",
    ):
        assert words in html


def test_pictures_of_exposed_images_are_shown() -> None:
    data = Data(torch.rand(12, 1, 6, 6), torch.arange(12) % 2, ("a", "b"), bounds=(0.0, 1.0))
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    model = Model(module, input_shape=(1, 6, 6), classes=data.classes)
    found = measure_privacy(model, data, data, Knowledge(data, Recipe(steps=1)), [Loss()])
    pictures = privacy_page(found, data).pictures
    assert {"privacy-records.png", "privacy-evidence.png"} <= set(pictures)
    assert found.evidence is not None
    assert found.evidence.shape == (8, 6, 6)


def test_without_a_recipe_the_certainty_alone_says_why() -> None:
    members, others, held = (gaussian_records(30, seed) for seed in range(3))
    found = measure_privacy(network(), members, others, Knowledge(held), [Loss()])
    assert all(len(each.why) == 1 for each in found.exposed)
    p = network().probs(members.x)[torch.arange(30), members.y]
    same = network().probs(others.x)[torch.arange(30), others.y]
    first = found.exposed[0]
    share = float((same[others.y == members.y[first.row]] < p[first.row]).double().mean())
    assert f"more than for {100 * share:.1f} % of non-members" in first.why[0]


def test_the_strongest_of_attacks_that_guess_is_no_leak() -> None:
    """One of them is above its own 95 % interval, which is what the strongest of many by chance is."""
    with measured(0) as provenance:
        lucky = Membership.of("lucky", torch.linspace(-1, 1, 60) + 0.3, torch.linspace(-1, 1, 60), provenance())
    assert lucky.auc.low > 0.5
    attacks = tuple(each.among(8) for each in [lucky] * 8)
    found = PrivacyReport(provenance=lucky.provenance, model_name="m", data_name="d", attacks=attacks, exposed=())
    assert found.verdict.startswith("No attack tells")


def test_where_nothing_was_found_no_safety_is_claimed() -> None:
    with measured(0) as provenance:
        chance = Membership.of("loss", torch.linspace(-1, 1, 50), torch.linspace(-1, 1, 50), provenance())
    found = PrivacyReport(provenance=chance.provenance, model_name="m", data_name="d", attacks=(chance,), exposed=())
    assert found.verdict.startswith("No attack tells members from non-members beyond doubt.")
    note = privacy_page(found, gaussian_records(4, 0)).notes[0]
    assert note.severity == "unclear"


@pytest.mark.parametrize(
    ("hits", "n", "words"), [(0, 200, "is exposed"), (0, 20, "may be exposed"), (90, 200, "hides among others")]
)
def test_one_record_is_judged_by_the_non_members_that_score_as_high(hits: int, n: int, words: str) -> None:
    told = Exposure(3, "abc", "yes", 1.0, Estimate.rate(hits, n)).tell()
    assert words in told


def test_no_attack_is_refused() -> None:
    data = gaussian_records(4, 0)
    with pytest.raises(ModelKeepError, match="no attack to run"):
        measure_privacy(network(), data, data, Knowledge(data), [])
