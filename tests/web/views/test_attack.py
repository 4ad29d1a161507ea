"""Attack over HTTP: positions of the slider are those of the playground; nothing is changed by asking."""

from __future__ import annotations

from modelkeep.attack import PGD
from modelkeep.zoo import datasets, pretrained
from web.conftest import Browser

DIGITS = {"model": "digits-cnn", "data": "digits"}


def test_a_trail_and_its_positions(browser: Browser) -> None:
    trail = browser.get("/api/attack/trail", example="3", norm="linf", **DIGITS).json()
    assert trail["nearest"] < trail["radii"][-1]
    assert not trail["wrong"]
    assert trail["made"]["command"] == "modelkeep attack digits-cnn --data digits --method fmn --norm linf --seed 0"
    at = browser.get("/api/attack/at", example="3", norm="linf", step="40", **DIGITS).json()
    data = datasets.load("digits", "test").take([3])
    expected = PGD(radius=trail["radii"][40])(pretrained.load("digits-cnn"), data)
    assert at["state"] == "found"
    assert at["distance"] == float(expected.distance)
    assert at["answer"][0]["name"] == data.classes[int(expected.after)]
    assert at["shown"]["picture"]["width"] == at["change"]["width"] == 8
    assert (
        browser.get("/api/attack/at", example="3", norm="linf", step="0", **DIGITS)
        .json()["sentence"]
        .startswith("Nothing is")
    )


def test_errors_are_sentences(browser: Browser, black_box: Browser) -> None:
    assert (
        "The norm must be one of" in browser.get("/api/attack/trail", example="3", norm="l7", **DIGITS).json()["error"]
    )
    assert "0 to 40" in browser.get("/api/attack/at", example="3", step="99", **DIGITS).json()["error"]
    assert "weights" in black_box.get("/api/attack/model").json()["error"]
    assert "attack answers --data digits --method square" in black_box.get("/api/attack/model").json()["error"]
    assert browser.post("/api/attack/trail", {}).status_code == 405


def test_a_table_shows_the_features_that_were_changed(browser: Browser) -> None:
    assert browser.post("/api/open", {"model": "clinic", "data": "breast-cancer"}).status_code == 200
    asked = {"model": "clinic", "data": "breast-cancer"}
    found = browser.get("/api/attack/at", example="0", step="40", **asked).json()
    assert "shown" not in found
    sizes = [abs(by) for *_, by in found["features"]]
    assert sizes == sorted(sizes, reverse=True)
    assert browser.get("/api/attack/model", **DIGITS).json()["kind"] == "picture"
