"""Several tabs at once, with two models: each gets what it would get alone."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from modelkeep.cli.forms import CommandLineForms
from modelkeep.web.app import create_app
from modelkeep.web.workspace import Workspace
from web.conftest import HOST, TOKEN, Browser

MODELS = ({"model": "digits-cnn", "data": "digits"}, {"model": "digits-certified", "data": "digits"})
PLACES = {"digits-cnn": "conv2_relu", "digits-certified": "conv2_minmax"}
TABS = 6


def asked() -> list[tuple[str, dict[str, str]]]:
    """What the tabs ask for, in an order that mixes models and views."""
    found: list[tuple[str, dict[str, str]]] = []
    for opened in MODELS:
        place = PLACES[opened["model"]]
        found += [("/api/explain/example", opened | {"example": str(i), "slice": place}) for i in (3, 5)]
        found += [("/api/explain/unit", opened | {"example": "3", "slice": place, "unit": "1"})]
        found += [("/api/attack/at", opened | {"example": "3", "step": str(step)}) for step in (10, 30)]
        found += [("/api/prove/at", opened | {"radius": "0.1"}), ("/api/privacy/at", opened | {"rate": "0.1"})]
        found += [("/explain", opened), ("/api/explain/model", opened)]
    random.Random(0).shuffle(found)
    return found


def answers(folder: Path, tabs: int) -> list[Any]:
    """What a fresh application answers, `tabs` requests at a time."""

    def ask(request: tuple[str, dict[str, str]]) -> Any:
        path, query = request
        answer = browser.get(path, **query)
        assert answer.status_code == 200, answer.text
        if not path.startswith("/api/"):
            return None
        told = answer.json()
        told.get("made", {}).pop("seconds", None)
        return told

    with TestClient(create_app(Workspace(folder, CommandLineForms()), TOKEN), base_url=HOST) as client:
        browser = Browser(client)
        for opened in MODELS:
            assert browser.post("/api/open", opened | {"train": "digits"}).status_code == 200
        with ThreadPoolExecutor(tabs) as pool:
            return list(pool.map(ask, asked()))


def test_each_tab_gets_what_it_would_get_alone(tmp_path: Path) -> None:
    assert answers(tmp_path, TABS) == answers(tmp_path, 1)
