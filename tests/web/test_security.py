"""The adversary of the gate: other sites, other names, other methods, no token, too much."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from modelkeep.cli.forms import CommandLineForms
from modelkeep.web.app import create_app
from modelkeep.web.rail import ROUTERS
from modelkeep.web.security import CSRF_HEADER, HEADERS, MOST_BYTES
from modelkeep.web.workspace import Workspace
from web.conftest import HOST, TOKEN, Browser

OPEN = {"model": "digits-cnn", "data": "digits"}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, CommandLineForms())


@pytest.fixture
def outside(workspace: Workspace) -> Iterator[TestClient]:
    """A client that has seen no token."""
    with TestClient(create_app(workspace, TOKEN), base_url=HOST, follow_redirects=False) as client:
        yield client


@pytest.fixture
def inside(outside: TestClient) -> Browser:
    outside.follow_redirects = True
    return Browser(outside)


def test_nothing_is_told_without_the_token(outside: TestClient) -> None:
    for path in ("/", "/api/jobs", "/api/opened", "/reports/run.json", "/enter", "/enter?token=wrong", "/nothing"):
        answer = outside.get(path)
        assert answer.status_code == 401, path
        assert "digits" not in answer.text
        assert 'csrf" content=""' in answer.text or path.startswith("/api/")


def test_the_token_opens_once_and_is_in_no_page(outside: TestClient, workspace: Workspace) -> None:
    entered = outside.get("/enter", params={"token": TOKEN})
    assert entered.status_code == 303
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert TOKEN not in outside.get("/").text
    assert outside.get("/enter", params={"token": TOKEN}).headers["location"] == "/"  # the same browser again
    outside.cookies.clear()
    assert outside.get("/enter", params={"token": TOKEN}).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "192.168.0.7", ""])
def test_a_name_of_the_net_that_leads_here_is_refused(inside: Browser, host: str) -> None:
    assert inside.client.get("/api/jobs", headers={"Host": host}).status_code == 403
    assert inside.client.get("/static/core.js", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "changed",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9000"},  # another server of this machine
        {"Origin": "https://127.0.0.1:8000"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {CSRF_HEADER: "guessed"},
        {CSRF_HEADER: ""},
    ],
)
def test_another_site_changes_nothing(inside: Browser, workspace: Workspace, changed: dict[str, str]) -> None:
    answer = inside.client.post("/api/open", json=OPEN, headers=inside.headers | changed)
    assert answer.status_code == 403
    assert workspace.opened is None


def test_another_site_reads_nothing(inside: Browser) -> None:
    for site in ("cross-site", "same-site"):
        assert inside.client.get("/", headers={"Sec-Fetch-Site": site}).status_code == 403


def test_without_an_origin_the_browser_must_say_that_it_is_ours(inside: Browser, workspace: Workspace) -> None:
    bare = {CSRF_HEADER: inside.headers[CSRF_HEADER]}
    assert inside.client.post("/api/open", json=OPEN, headers=bare).status_code == 403
    assert inside.client.post("/api/open", json={}, headers=bare | {"Sec-Fetch-Site": "same-origin"}).status_code == 422
    assert workspace.opened is None


def test_only_a_post_changes(inside: Browser, workspace: Workspace) -> None:
    """A GET of everything that has a POST changes nothing, and no other method is there."""
    posts = [route.path for router in ROUTERS for route in router.routes if "POST" in route.methods]
    assert len(posts) >= 3
    for path in posts:
        answer = inside.client.get(path.replace("{number}", "1"), params=OPEN)
        assert answer.status_code in (404, 405, 400, 200)
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert inside.client.request(method, "/api/open", json=OPEN, headers=inside.headers).status_code == 405
    assert workspace.opened is None
    assert workspace.jobs.all() == []


def test_a_body_is_never_larger_than_a_form(inside: Browser) -> None:
    large = b"x" * (MOST_BYTES + 1)
    headers = inside.headers | {"Content-Type": "application/json"}
    assert inside.client.post("/api/open", content=large, headers=headers).status_code == 413

    def parts() -> Iterator[bytes]:
        yield from (large[:1000] for _ in range(len(large) // 1000 + 1))

    assert inside.client.post("/api/open", content=parts(), headers=headers).status_code == 413
    assert inside.client.post("/api/open", content=b"{", headers=headers).status_code == 422


def test_every_answer_has_the_headers(inside: Browser) -> None:
    for path in ("/", "/nothing", "/api/jobs", "/static/core.js", "/static/page.css"):
        answer = inside.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, path
    assert "unsafe-inline" not in HEADERS["Content-Security-Policy"].replace("style-src-attr 'unsafe-inline'", "")


def test_no_page_has_a_script_or_a_style_of_its_own(inside: Browser) -> None:
    for path in ("/", "/run", "/studies", "/attack"):
        text = inside.get(path).text
        assert "<style" not in text
        assert " onclick=" not in text
        assert text.count("<script") == text.count('<script type="module" src="/static/')


def test_a_name_with_html_stays_text(inside: Browser) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    told = inside.post("/api/open", {"model": hostile, "data": "digits"})
    assert told.status_code == 400
    assert told.headers["content-type"] == "application/json"
    page = inside.get("/", model=hostile, data=hostile).text
    assert hostile not in page
    assert hostile not in inside.get("/run", verb=hostile).text
    assert hostile not in inside.get("/", run=hostile).text
