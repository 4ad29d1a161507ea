"""Every view has a page, and what cannot be done is a sentence."""

from __future__ import annotations

import pytest

from modelkeep.web.rail import VIEWS
from web.conftest import Browser


@pytest.mark.parametrize("path", [view.path for view in VIEWS])
def test_every_view_has_a_page(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 200
    assert 'aria-current="page"' in answer.text
    assert "digits-cnn" in answer.text


def test_what_is_not_there_is_a_sentence(browser: Browser) -> None:
    assert browser.get("/api/nothing").json() == {"error": "There is no such page."}
    assert "There is no such page." in browser.get("/nothing").text
    assert "digits-cnnn" in browser.post("/api/open", {"model": "digits-cnnn", "data": "digits"}).json()["error"]
