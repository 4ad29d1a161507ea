"""Explain over HTTP: what is asked for by the address is what the explorer computes, and errors are sentences."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from modelkeep.explain import IntegratedGradients
from modelkeep.zoo import datasets, pretrained
from web.conftest import Browser

DIGITS = {"model": "digits-cnn", "data": "digits"}


def test_the_graph_and_the_examples(browser: Browser) -> None:
    told = browser.get("/api/explain/model", **DIGITS).json()
    assert [place["name"] for place in told["places"]][:2] == ["input", "conv1"]
    assert told["usual"] == "linear1_relu"
    right = [line["right"] for line in told["examples"]]
    assert right == sorted(right), "errors come first"
    assert len(right) == told["of"] == 359


def test_influence_units_and_exemplars_come_at_once(browser: Browser) -> None:
    told = browser.get("/api/explain/example", example="5", slice="conv2_relu", why="3", against="8", **DIGITS).json()
    assert told["quantity"] == "class '3' rather than '8'"
    assert len(told["units"]) == len(told["exemplars"]) == 8
    assert all(len(row) == 5 and row[0]["exhibit"]["kind"] == "picture" for row in told["exemplars"])
    assert told["made"]["command"] == (
        "modelkeep explain digits-cnn --data digits --index 5 --why 3 --rather-than 8 --slice conv2_relu "
        "--method integrated-gradients --seed 0"
    )
    assert "data.take([5])" in told["made"]["python"]


def test_the_map_is_that_of_the_method(browser: Browser) -> None:
    told = browser.get("/api/explain/example", example="5", slice="input", **DIGITS).json()["seen"]
    drawn = np.frombuffer(base64.b64decode(told["map"]["values"]), dtype=np.int8).reshape(8, 8)
    expected = IntegratedGradients()(pretrained.load("digits-cnn"), datasets.load("digits", "test").take([5])).heat()[0]
    end = told["map"]["limit"]
    np.testing.assert_allclose(drawn / 127, (expected / end).clamp(-1, 1), atol=0.5 / 127 + 1e-5)


def test_what_makes_a_unit_active(browser: Browser) -> None:
    told = browser.get("/api/explain/unit", example="5", slice="conv2_relu", unit="3", **DIGITS).json()
    assert told["quantity"] == "channel 3 of 'conv2_relu'"
    assert told["map"]["width"] == 8


def test_thumbs_come_in_the_order_of_the_numbers(browser: Browser) -> None:
    one, two = (browser.get("/api/explain/thumbs", index=each, **DIGITS).json()[0] for each in ("7", "9"))
    assert browser.get("/api/explain/thumbs", index="9,7,nonsense,100000", **DIGITS).json() == [two, one]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"example": "5", "slice": "nowhere"}, "no place 'nowhere'"),
        ({"example": "99999", "slice": "input"}, "examples 0 to 358"),
        ({"example": "five", "slice": "input"}, "example: Input should be a valid integer"),
        ({"example": "5", "slice": "input", "why": "seven"}, "seven"),
        ({"example": "5", "slice": "input", "why": "3", "against": "3"}, "another class"),
    ],
)
def test_a_wrong_address_is_a_sentence(browser: Browser, query: dict[str, str], sentence: str) -> None:
    answer = browser.get("/api/explain/example", **query, **DIGITS)
    assert 400 <= answer.status_code < 500
    assert sentence in answer.json()["error"]


def test_a_black_box_says_what_it_lacks(black_box: Browser) -> None:
    answer = black_box.get("/api/explain/model")
    assert answer.status_code == 400
    assert "needs the weights" in answer.json()["error"]
    assert black_box.get("/explain").status_code == 200
