"""Clients on models that cannot show everything: one that only answers, and one whose training data is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from modelkeep import Model
from modelkeep.web.app import create_app
from modelkeep.web.workspace import Workspace
from modelkeep.zoo import datasets, pretrained
from web.conftest import HOST, TOKEN, Browser
from web.given import Given


@pytest.fixture(scope="session")
def black_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A client with a model open that answers with scores and shows nothing else; its training data is unknown."""
    inside = pretrained.load("digits-cnn")
    data = datasets.load("digits", "test").first(40)
    model = Model.answering(
        lambda x: inside.probs(inside.probe().new_tensor(x)).numpy(), input_shape=(1, 8, 8), classes=data.classes
    )
    workspace = Workspace(tmp_path_factory.mktemp("black-box"), Given(model, replace(data, bounds=None)))
    with TestClient(create_app(workspace, TOKEN), base_url=HOST) as client:
        browser = Browser(client)
        assert browser.post("/api/open", {"model": "answers", "data": "digits"}).status_code == 200
        yield browser


@pytest.fixture
def runs(workspace: Workspace) -> Path:
    """The folder of runs of the workspace that `browser` has."""
    return workspace.folder
