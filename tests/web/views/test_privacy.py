"""Privacy over HTTP: the fast attacks where the training data is known, stored ones, and what to do without either."""

from __future__ import annotations

from pathlib import Path

from modelkeep.privacy import Knowledge, Naive
from modelkeep.report import measure_privacy
from modelkeep.zoo import datasets, pretrained
from web.conftest import Browser

DIGITS = {"model": "digits-cnn", "data": "digits"}


def test_a_rate_along_the_curve(browser: Browser) -> None:
    told = browser.get("/api/privacy/model", **DIGITS).json()
    assert [each["name"] for each in told["fast"]] == ["loss", "modified-entropy", "entropy", "naive"]
    assert (told["members"], told["others"]) == (1438, 180)
    curve = browser.get("/api/privacy/curve", attack="loss", **DIGITS).json()
    assert curve["corners"][0] == [0.0, 0.0]
    assert curve["made"]["command"].startswith("modelkeep privacy digits-cnn --members digits --non-members digits")
    at = browser.get("/api/privacy/at", attack="loss", rate="0.1", **DIGITS).json()
    assert at["accused"] <= 18
    assert at["records"][0]["exhibit"]["kind"] == "picture"
    assert at["enough"]
    assert not browser.get("/api/privacy/at", attack="loss", rate="0.001", **DIGITS).json()["enough"]


def test_a_stored_result_is_found_by_its_model(browser: Browser, runs: Path) -> None:
    model, train = pretrained.load("digits-cnn"), datasets.load("digits", "train").first(60)
    others, held = datasets.load("digits", "test").first(60).split(0.5, 0.5)
    report = measure_privacy(model, train, others, Knowledge(held), [Naive()])
    (runs / "kept").mkdir()
    (runs / "kept" / "privacy.json").write_text(report.to_json(), encoding="utf-8")
    (runs / "privacy.json").write_text("damaged", encoding="utf-8")
    try:
        told = browser.get("/api/privacy/model", **DIGITS).json()["stored"]
        assert [each["name"] for each in told] == ["kept/privacy.json#naive"]
        at = browser.get("/api/privacy/at", attack="kept/privacy.json#naive", rate="0.5", **DIGITS).json()
        assert at["members"] == int((report.attacks[0].members > at["threshold"]).sum())
    finally:
        (runs / "kept" / "privacy.json").unlink()
        (runs / "privacy.json").unlink()
    gone = browser.get("/api/privacy/at", attack="kept/privacy.json#naive", rate="0.5", **DIGITS)
    assert "no stored attack" in gone.json()["error"]
    outside = browser.get("/api/privacy/at", attack="../secret/privacy.json#naive", rate="0.5", **DIGITS)
    assert "no stored attack" in outside.json()["error"]


def test_without_training_data_it_says_how_to_name_them(black_box: Browser) -> None:
    told = black_box.get("/api/privacy/model").json()
    assert told["fast"] == told["stored"] == []
    assert told["why_not"]
    assert "--members TRAIN" in black_box.get("/privacy").text


def test_errors_are_sentences(browser: Browser) -> None:
    assert "between 0 and 1" in browser.get("/api/privacy/at", rate="2", **DIGITS).json()["error"]
    assert "one of loss" in browser.get("/api/privacy/curve", attack="lira", **DIGITS).json()["error"]
