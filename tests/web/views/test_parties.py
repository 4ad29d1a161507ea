"""Parties: two real folders, one that is none, and ledgers that are held against each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.governed import found
from cli.running import Ran
from modelkeep.cli import app
from modelkeep.cli.ending import run
from web.conftest import Browser


def test_each_party_stands_as_its_files_say(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path
    monkeypatch.chdir(place)
    found(lambda *words: Ran(run(app, list(map(str, words))), "", ""))
    folders = "\n".join([str(place / "alice"), str(place / "bob"), str(place / "nobody"), "<b>"])
    page = browser.get("/parties", folders=folders).text
    assert page.count("signed by 2 of 2</dd>") == 2
    assert "modelkeep govern status" in page
    assert page.count('class="problem"') >= 3  # the one that is hidden, and the two that are no parties
    assert "<b>&lt;b&gt;" not in page
    assert "&lt;b&gt;" in page


def test_nothing_is_read_before_a_folder_is_named(browser: Browser) -> None:
    assert "Name the folders" in browser.get("/parties").text
    assert "Name the folders" in browser.get("/parties", folders=" \n ").text
