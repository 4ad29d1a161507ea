"""A client that the application let in, with digits open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from modelkeep.cli.ui import open_sources, open_training
from modelkeep.web.app import create_app
from modelkeep.web.workspace import Workspace

HOST = "http://127.0.0.1:8000"
TOKEN = "the-token"


class Browser:
    """A client as the application's own pages are: with the cookie, and with the header of its scripts."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        page = client.get("/enter", params={"token": TOKEN}).text
        found = re.search(r'name="csrf" content="([^"]+)"', page)
        assert found is not None
        self.headers = {"Origin": HOST, "X-ModelKeep-CSRF": found[1]}

    def get(self, path: str, **query: str) -> Any:
        """A page or JSON."""
        return self.client.get(path, params=query)

    def post(self, path: str, body: object = None, **query: str) -> Any:
        """A change, from a page of ours."""
        return self.client.post(path, json=body if body is not None else {}, params=query, headers=self.headers)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace in an empty folder."""
    return Workspace(Path(tmp_path_factory.mktemp("runs")), open_sources, open_training)


@pytest.fixture(scope="session")
def browser(workspace: Workspace) -> Iterator[Browser]:
    """A client that was let in; digits-cnn is open."""
    with TestClient(create_app(workspace, TOKEN), base_url=HOST) as client:
        inside = Browser(client)
        assert inside.post("/api/open", {"model": "digits-cnn", "data": "digits", "train": "digits"}).status_code == 200
        yield inside
