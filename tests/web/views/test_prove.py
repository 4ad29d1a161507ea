"""Prove over HTTP: shares at each radius, and a sentence where a network cannot be bounded."""

from __future__ import annotations

from modelkeep.certify import Certify
from modelkeep.zoo import datasets, pretrained
from web.conftest import Browser

CERTIFIED = {"model": "digits-certified", "data": "digits"}


def test_the_curve_and_a_radius_on_it(browser: Browser) -> None:
    assert browser.post("/api/open", CERTIFIED).status_code == 200
    told = browser.get("/api/prove/model", **CERTIFIED).json()
    shares = [each["value"] for each in told["verified"]]
    assert shares == sorted(shares, reverse=True)
    at = browser.get("/api/prove/at", radius="0.3", **CERTIFIED).json()
    expected = Certify(radius=0.3)(pretrained.load("digits-certified"), datasets.load("digits", "test"))
    assert at["verified"]["value"] == expected.verified.value
    assert at["lost"][0]["radius"] <= 0.3
    assert at["lost_count"] >= len(at["lost"]) == 24
    assert at["command"] == "modelkeep certify digits-certified --data digits --radius 0.3 --norm l2"


def test_errors_are_sentences(browser: Browser, black_box: Browser) -> None:
    assert "0 or more" in browser.get("/api/prove/at", radius="-1", **CERTIFIED).json()["error"]
    assert "0 or more" in browser.get("/api/prove/at", radius="inf", **CERTIFIED).json()["error"]
    assert "The norm must be" in browser.get("/api/prove/model", norm="l7", **CERTIFIED).json()["error"]
    assert "weights" in black_box.get("/api/prove/model").json()["error"]
    assert "certify answers --data digits --method smoothing" in black_box.get("/api/prove/model").json()["error"]
