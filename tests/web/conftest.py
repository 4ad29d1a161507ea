"""A client that the application let in, with digits open."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from browser import chromium
from modelkeep.audit.sources import Sources
from modelkeep.cli.forms import CommandLineForms
from modelkeep.web.app import create_app
from modelkeep.web.serve import listen, make_server
from modelkeep.web.workspace import Workspace
from processes import PATIENCE

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
    return Workspace(Path(tmp_path_factory.mktemp("runs")), CommandLineForms())


@pytest.fixture(scope="session")
def browser(workspace: Workspace) -> Iterator[Browser]:
    """A client that was let in; digits-cnn is open."""
    with TestClient(create_app(workspace, TOKEN), base_url=HOST) as client:
        inside = Browser(client)
        assert inside.post("/api/open", {"model": "digits-cnn", "data": "digits", "train": "digits"}).status_code == 200
        yield inside


class Served:
    """The application on a real server, seen by a real Chromium that was let in."""

    def __init__(self, driver: Any, address: str, workspace: Workspace) -> None:
        self.driver, self.address, self.workspace = driver, address, workspace

    def open(self, path: str, **query: str) -> None:
        """Go to a view with digits open, or with what the query says."""
        told = urlencode({"model": "digits-cnn", "data": "digits"} | query)
        self.driver.get(f"{self.address}{path}?{told}")

    def find(self, selector: str) -> Any:
        """The first element, as soon as it is there."""
        return self.wait(lambda: next(iter(self.driver.find_elements("css selector", selector)), None), selector)

    def text(self, selector: str) -> str:
        """The text of an element, as soon as it has some."""
        found: str = self.wait(lambda: self.find(selector).text.strip(), selector)
        return found

    def wait(self, look: Callable[[], Any], what: str = "") -> Any:
        """What `look` returns as soon as that is true; an element that was replaced is looked for again."""
        from selenium.common.exceptions import StaleElementReferenceException

        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if found := look():
                    return found
            except StaleElementReferenceException:
                pass
            time.sleep(0.02)
        raise AssertionError(f"It did not come: {what}. The page says: {self.driver.page_source[:2000]}")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and whether the reader likes it dark."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def errors(self) -> list[str]:
        """What the browser's console complains of, since it was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@contextmanager
def serving(workspace: Workspace, token: str, port: int = 0) -> Iterator[tuple[str, int]]:
    """The application on a real server in a thread: the address that lets a browser in, and the port."""
    listener = listen(port)
    server = make_server(create_app(workspace, token))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        port = listener.getsockname()[1]
        yield f"http://127.0.0.1:{port}/enter?token={token}", port
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Chromium in front of the application, with digits open."""
    workspace = Workspace(tmp_path_factory.mktemp("served"), CommandLineForms())
    workspace.open(Sources("digits-cnn", "digits", "digits"))
    with serving(workspace, TOKEN) as (entrance, port), chromium(tmp_path_factory.mktemp("profile")) as driver:
        driver.get(entrance)
        yield Served(driver, f"http://127.0.0.1:{port}", workspace)
